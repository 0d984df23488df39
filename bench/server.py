"""The database server of the bench: the embedded one, durable, with a database for each system."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from xngin_worker.embedded_postgres import Server, acquire, locks

_DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
_SHOWN = (*_DURABLE, "shared_buffers", "max_wal_size", "autovacuum", "data_checksums")


@dataclass(frozen=True, kw_only=True)
class BenchServer:
    server: Server

    def url(self, database: str) -> str:
        return self.server.url.replace(f"/{self.server.database}?", f"/{database}?")

    @contextmanager
    def connection(self, database: str) -> Iterator[psycopg.Connection]:
        server = self.server
        conninfo = make_conninfo(host=str(server.socket_folder), port=server.port, user=server.user, dbname=database)
        with psycopg.connect(conninfo, autocommit=True, prepare_threshold=0) as connection:
            yield connection

    def make(self, database: str) -> str:
        with self.connection(self.server.database) as connection:
            name = sql.Identifier(database)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        return self.url(database)

    def drop(self, database: str) -> None:
        with self.connection(self.server.database) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    def facts(self) -> dict[str, str]:
        """What the numbers depend on. Refuses a server that is not durable."""
        with self.connection(self.server.database) as connection:
            shown = {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in _SHOWN}  # type: ignore[index]
            version = connection.execute("SHOW server_version").fetchone()[0]  # type: ignore[index]
        if any(shown[name] != "on" for name in _DURABLE):
            raise SystemExit(f"the server is not durable: {shown}")
        return {"PostgreSQL": version, **shown}


@contextmanager
def started() -> Iterator[BenchServer]:
    folder = Path(__file__).parents[1] / ".data" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    # Two runs at once would spoil each other's numbers, and use the same databases.
    with locks.exclusive(folder / "run.lock"):
        server = acquire(folder, _binaries())
        try:
            yield BenchServer(server=server)
        finally:
            server.release()


def _binaries() -> Path | None:
    folder = os.environ.get("XNGIN_PG_BIN")
    return Path(folder) if folder else None
