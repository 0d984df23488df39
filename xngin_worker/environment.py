"""The environment variables, read once: the only place of the project that looks at `os.environ`.

`read` turns them into one frozen value, or reports every fault in them at once. Secrets are in fields that no
repr shows, and no message quotes a variable that may hold one. A variable that is set but empty is not set.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from xngin_worker import secret_key
from xngin_worker.configuration import ConfigurationError, did_you_mean
from xngin_worker.database_address import DatabaseAddress, read_database_address
from xngin_worker.values import (
    Network,
    read_choice,
    read_count,
    read_file,
    read_flag,
    read_folder,
    read_list,
    read_networks,
)
from xngin_worker.variables import LOG_FORMATS, LOG_LEVELS, MODES, SHORTEST_SECRET_KEY, VARIABLES
from xngin_worker.worker_settings import WORKER_VARIABLES, WorkerValue

PROJECT_FOLDER = Path(__file__).resolve().parent.parent
DATA_FOLDER = PROJECT_FOLDER / ".data"

KNOWN_NAMES = frozenset({variable.name for variable in VARIABLES} | set(WORKER_VARIABLES))

# Kubernetes tells every container about a service named "xngin-worker" in variables of these forms.
_SERVICE_LINK = re.compile(r"XNGIN_\w+?_(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """All settings that come from variables. `database` is None when the embedded PostgreSQL is to be used;
    `worker` holds, by field name, the worker's settings that were given."""

    production: bool
    database: DatabaseAddress | None = field(repr=False)
    secret_keys: tuple[str, ...] = field(repr=False)
    allowed_hosts: tuple[str, ...]
    csrf_trusted_origins: tuple[str, ...]
    pg_bin: Path | None
    pgbouncer: bool
    webhook_allowed_networks: tuple[Network, ...]
    ca_bundle: Path | None
    datasource_allowed_networks: tuple[Network, ...]
    duckdb_folder: Path | None
    log_level: str
    log_format: str
    port: int
    web_concurrency: int
    worker: Mapping[str, WorkerValue]


@functools.cache
def current() -> Environment:
    """The environment of this process, read at the first call and kept."""
    return read(os.environ, terminal=sys.stderr.isatty())


def read(variables: Mapping[str, str], *, terminal: bool = False, data_folder: Path = DATA_FOLDER) -> Environment:
    """The value of all variables, or one `ConfigurationError` with every fault in them.

    `terminal` says whether a person reads the log; `data_folder` keeps the key of a development checkout.
    """
    return _Reading(variables).environment(terminal=terminal, data_folder=data_folder)


class _Reading:
    """One pass over the variables that goes on after a fault, so that it finds them all."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._given = {name: text for name, text in variables.items() if text.strip()}
        self._problems: list[str] = []

    def environment(self, *, terminal: bool, data_folder: Path) -> Environment:
        production = (
            self._get("XNGIN_ENVIRONMENT", lambda text: read_choice(text, MODES), "development") == "production"
        )
        environment = Environment(
            production=production,
            database=self._database(production),
            secret_keys=self._secret_keys(production, data_folder),
            allowed_hosts=self._allowed_hosts(production),
            csrf_trusted_origins=self._get("XNGIN_CSRF_TRUSTED_ORIGINS", _read_origins, ()),
            pg_bin=self._get("XNGIN_PG_BIN", read_folder, None),
            pgbouncer=self._get("XNGIN_PGBOUNCER", read_flag, False),
            webhook_allowed_networks=self._get("XNGIN_WEBHOOK_ALLOWED_NETWORKS", read_networks, ()),
            ca_bundle=self._get("XNGIN_CA_BUNDLE", read_file, None),
            datasource_allowed_networks=self._get("XNGIN_DATASOURCE_ALLOWED_NETWORKS", read_networks, ()),
            duckdb_folder=self._get(
                "XNGIN_DUCKDB_FOLDER", read_folder, None if production else data_folder / "warehouses"
            ),
            log_level=self._get("XNGIN_LOG_LEVEL", lambda text: read_choice(text, LOG_LEVELS), "INFO"),
            log_format=self._get(
                "XNGIN_LOG_FORMAT",
                lambda text: read_choice(text, LOG_FORMATS),
                "console" if terminal and not production else "json",
            ),
            port=self._get("PORT", lambda text: read_count(text, lowest=1, highest=65535), 8000),
            web_concurrency=self._get("WEB_CONCURRENCY", lambda text: read_count(text, lowest=1, highest=1000), 2),
            worker=self._worker(),
        )
        self._find_unknown()
        if self._problems:
            raise ConfigurationError(self._problems)
        return environment

    def _get[Value, Default](self, name: str, reader: Callable[[str], Value], default: Default) -> Value | Default:
        text = self._given.get(name)
        if text is None:
            return default
        try:
            return reader(text)
        except ValueError as error:
            self._problems.append(f"{name} {error}.")
            return default

    def _require(self, name: str, why: str) -> None:
        if name not in self._given:
            self._problems.append(f"{name} is not set: {why}.")

    def _database(self, production: bool) -> DatabaseAddress | None:
        if production:
            self._require("DATABASE_URL", "in production there is no embedded database to fall back to")
        return self._get("DATABASE_URL", read_database_address, None)

    def _secret_keys(self, production: bool, data_folder: Path) -> tuple[str, ...]:
        keys = self._get("XNGIN_SECRET_KEYS", read_list, ())
        if production:
            self._require("XNGIN_SECRET_KEYS", "production needs at least one key that only you know")
            self._problems.extend(
                f"XNGIN_SECRET_KEYS needs {SHORTEST_SECRET_KEY} or more characters, "
                f"and not all the same, in its key number {place}."
                for place, key in enumerate(keys, start=1)
                if len(key) < SHORTEST_SECRET_KEY or len(set(key)) < 5
            )
            return keys
        if keys:
            return keys
        try:
            return (secret_key.of_checkout(data_folder / "secret_key"),)
        except OSError as error:
            self._problems.append(
                f"XNGIN_SECRET_KEYS is not set, and no key can be kept in {data_folder}: {error.strerror or error}."
            )
            return ()

    def _allowed_hosts(self, production: bool) -> tuple[str, ...]:
        if production:
            self._require("XNGIN_ALLOWED_HOSTS", "production answers only to names that are listed")
        return self._get("XNGIN_ALLOWED_HOSTS", _read_hosts, ("localhost", ".localhost", "127.0.0.1", "[::1]"))

    def _worker(self) -> Mapping[str, WorkerValue]:
        values: dict[str, WorkerValue] = {}
        for name, setting in WORKER_VARIABLES.items():
            if name in self._given:
                values[setting.field] = self._get(name, setting.read, setting.default)
        return MappingProxyType(values)

    def _find_unknown(self) -> None:
        for name in sorted(self._given):
            if name.startswith("XNGIN_") and name not in KNOWN_NAMES and not _SERVICE_LINK.fullmatch(name):
                self._problems.append(f"{name} is not a variable of this project{did_you_mean(name, KNOWN_NAMES)}.")


def _read_origins(text: str) -> tuple[str, ...]:
    origins = read_list(text)
    for origin in origins:
        if not re.fullmatch(r"https?://[^/?#@\s]+", origin):
            raise ValueError(f"must be origins like https://admin.example.com between commas, not {origin!r}")
    return origins


def _read_hosts(text: str) -> tuple[str, ...]:
    hosts = read_list(text)
    for host in hosts:
        if not re.fullmatch(r"\*|\.?[\w.-]+|\[[0-9a-fA-F:.]+\]", host):
            raise ValueError(f"must be host names without scheme, port or path between commas, not {host!r}")
    return hosts
