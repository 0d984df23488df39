"""Which hosts and files a datasource may name: customers write its config, so it is judged like a webhook's address."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from experiments.errors import DatasourceError
from taskqueue.outbound.errors import AddressRefused, OutboundError
from taskqueue.outbound.judgement import Address, Network
from taskqueue.outbound.resolution import resolve

_LOOPBACK = ip_address("127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """``allowed_networks`` may be reached besides public addresses; DuckDB files lie in ``duckdb_folder``."""

    allowed_networks: Sequence[Network] = ()
    duckdb_folder: Path | None = None

    def addresses_of(self, host: str) -> tuple[Address, ...]:
        """Where a connection may go, judged once: connect to one of these, not to the name again.

        Raises ``DatasourceError``: ``address_refused``, ``connection_failed``.
        """
        try:
            return resolve(host, allowed_networks=self.allowed_networks)
        except AddressRefused as error:
            raise DatasourceError(
                f"{error}; the operator can allow its network with XNGIN_DATASOURCE_ALLOWED_NETWORKS",
                field="host",
                code="address_refused",
            ) from error
        except OutboundError as error:
            raise DatasourceError(str(error), field="host", code="connection_failed") from error

    def check_socket(self, folder: str) -> None:
        """A socket in the file system leads to this machine, as 127.0.0.1 does.

        Raises ``DatasourceError`` (``address_refused``).
        """
        if "," in folder:
            raise DatasourceError(
                f"the folder of a socket must not have a comma in its name: {folder!r} would be several hosts",
                field="host",
                code="address_refused",
            )
        if not any(_LOOPBACK in network for network in self.allowed_networks):
            raise DatasourceError(
                f"the socket in {folder!r} leads to the worker's own machine, and 127.0.0.1 is in none of the allowed"
                " networks (XNGIN_DATASOURCE_ALLOWED_NETWORKS)",
                field="host",
                code="address_refused",
            )

    def duckdb_file(self, path: str) -> Path:
        """The file, links followed. Raises ``DatasourceError`` (``address_refused``) unless it lies in the folder."""
        if self.duckdb_folder is None:
            raise DatasourceError(
                "DuckDB files are not read here: the operator sets XNGIN_DUCKDB_FOLDER to the folder that holds them",
                field="path",
                code="address_refused",
            )
        folder = self.duckdb_folder.resolve()
        file = (folder / path).resolve()
        if not file.is_relative_to(folder) or file == folder:
            raise DatasourceError(
                f"the path {path!r} leads out of the folder of DuckDB files (XNGIN_DUCKDB_FOLDER)",
                field="path",
                code="address_refused",
            )
        if not os.path.isfile(file):  # noqa: PTH113 - a name too long for a file is an error of the method
            raise DatasourceError(
                f"there is no file {path!r} in the folder of DuckDB files (XNGIN_DUCKDB_FOLDER)",
                field="path",
                code="connection_failed",
            )
        return file
