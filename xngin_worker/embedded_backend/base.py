"""Django's PostgreSQL backend on the embedded server, which starts with the first connection."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.db.backends.postgresql import base, client

from xngin_worker.embedded_postgres import acquire
from xngin_worker.embedded_postgres.binaries import find_psql


class DatabaseClient(client.DatabaseClient):
    """`manage.py dbshell`, also where no other PostgreSQL client is installed."""

    connection: "DatabaseWrapper"

    def runshell(self, parameters: Iterable[str]) -> None:
        self.connection.ensure_server()
        super().runshell(parameters)

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        words, environment = super().settings_to_cmd_args_env(settings_dict, parameters)
        program = shutil.which(words[0]) or find_psql(_path(settings_dict.get("EMBEDDED_BINARIES")))
        return [str(program or words[0]), *words[1:]], environment


class DatabaseWrapper(base.DatabaseWrapper):
    """Two keys of its own in DATABASES: EMBEDDED_DATA_FOLDER, and EMBEDDED_BINARIES, which may be absent."""

    client_class = DatabaseClient

    def ensure_server(self) -> None:
        server = acquire(
            Path(self.settings_dict["EMBEDDED_DATA_FOLDER"]),
            _path(self.settings_dict.get("EMBEDDED_BINARIES")),
        )
        # NAME stays what Django made it: it is "postgres" or a test database at times.
        self.settings_dict["HOST"] = str(server.socket_folder)
        self.settings_dict["PORT"] = str(server.port)
        self.settings_dict["USER"] = server.user

    def get_connection_params(self) -> dict[str, Any]:
        self.ensure_server()
        return super().get_connection_params()


def _path(value: str | Path | None) -> Path | None:
    return Path(value) if value else None
