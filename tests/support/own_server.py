"""A PostgreSQL server for one test run alone: it may be stopped, restarted and reconfigured while workers use it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.worker_process import LOOK_SECONDS, REPOSITORY, environment
from xngin_worker.embedded_postgres import acquire
from xngin_worker.embedded_postgres.home import open_home
from xngin_worker.embedded_postgres.server import Postmaster

_TEMPLATE = "queue_template"
_SECONDS = 30.0

type Row = dict[str, Any]
type Parameters = Sequence[object] | Mapping[str, object]


class OwnServer:
    """Databases are copies of one that was migrated once, so that each test begins with empty tables."""

    def __init__(self, data_folder: Path) -> None:
        self.data_folder = data_folder
        self.server = acquire(data_folder)
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        migrate = [sys.executable, os.fspath(REPOSITORY / "manage.py"), "migrate", "--verbosity=0"]
        subprocess.run(migrate, env=environment(self.url(_TEMPLATE)), cwd=REPOSITORY, check=True, timeout=120)

    @property
    def host(self) -> str:
        return os.fspath(self.server.socket_folder)

    def url(self, database: str, *, user: str | None = None) -> str:
        host = quote(self.host, safe="")
        return f"postgresql://{user or self.server.user}@/{database}?host={host}&port={self.server.port}"

    def execute(self, statement: sql.SQL | sql.Composed) -> None:
        """In the server's first database, where no worker is."""
        with psycopg.connect(self.url(self.server.database), autocommit=True) as connection:
            connection.execute(statement)

    def create(self, *, migrated: bool = True) -> QueueDatabase:
        name = f"queue_{secrets.token_hex(4)}"
        template = sql.Identifier(_TEMPLATE if migrated else "template1")
        self.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), template))
        return QueueDatabase(self, name)

    def drop(self, name: str) -> None:
        self.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def stop(self) -> None:
        """Sessions are ended at once, as in a restart for an update."""
        self._postmaster.stop()

    def start(self) -> None:
        acquire(self.data_folder)

    def clear_away(self) -> None:
        place = self.data_folder / "postgres"
        self.server.release()
        if (pid := self._postmaster.listener()) is not None:
            os.kill(pid, signal.SIGQUIT)
        shutil.rmtree(self._postmaster.socket_folder, ignore_errors=True)
        shutil.rmtree(place.resolve(), ignore_errors=True)

    @property
    def _postmaster(self) -> Postmaster:
        home = open_home(self.data_folder)
        return Postmaster(home=home, socket_folder=home.socket_folder())


class QueueDatabase:
    """One database with the queue's tables, used as other programs do: by plain SQL."""

    def __init__(self, server: OwnServer, name: str) -> None:
        self.server = server
        self.name = name
        self.url = server.url(name)
        self._kept: psycopg.Connection[Row] | None = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    @contextlib.contextmanager
    def connection(self, *, autocommit: bool = True) -> Iterator[psycopg.Connection[Row]]:
        with psycopg.connect(
            self.url, autocommit=autocommit, row_factory=dict_row, application_name="test"
        ) as connection:
            yield connection

    def execute(self, statement: LiteralString, parameters: Parameters = ()) -> list[Row]:
        cursor = self._execute(statement, parameters)
        return cursor.fetchall() if cursor.description is not None else []

    def insert(self, task_type: str, payload: object = None, **columns: object) -> str:
        """Enqueue one task with nothing but an INSERT; its id."""
        values = {"task_type": task_type, "payload": Jsonb(payload), **columns}
        statement = sql.SQL("INSERT INTO tasks ({}) VALUES ({}) RETURNING id").format(
            sql.SQL(", ").join(map(sql.Identifier, values)), sql.SQL(", ").join(map(sql.Placeholder, values))
        )
        row = self._execute(statement, values).fetchone()
        assert row is not None
        return str(row["id"])

    def insert_many(self, count: int, task_type: str, payload: object = None, **columns: object) -> None:
        values = {"task_type": task_type, "payload": Jsonb(payload), **columns}
        statement = sql.SQL("INSERT INTO tasks ({}) SELECT {} FROM generate_series(1, {})").format(
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(map(sql.Placeholder, values)),
            sql.Literal(count),
        )
        self._execute(statement, values)

    def task(self, id: str) -> Row:
        (row,) = self.execute("SELECT * FROM tasks WHERE id = %s", [id])
        return row

    def attempts(self, id: str) -> list[Row]:
        return self.execute("SELECT * FROM task_attempts WHERE task_id = %s ORDER BY attempt", [id])

    def count(self, status: str) -> int:
        (row,) = self.execute("SELECT count(*) AS n FROM tasks WHERE status = %s", [status])
        return int(row["n"])

    def wait_for(self, statement: LiteralString, parameters: Parameters = (), *, seconds: float = _SECONDS) -> Row:
        """The first row of the statement, as soon as it has one."""
        deadline = time.monotonic() + seconds
        while (row := self._execute(statement, parameters).fetchone()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s: {statement} {parameters}\n{self.picture()}")
            time.sleep(LOOK_SECONDS)
        return row

    def wait_for_status(self, id: str, status: str, *, seconds: float = _SECONDS) -> Row:
        return self.wait_for("SELECT * FROM tasks WHERE id = %s AND status = %s", [id, status], seconds=seconds)

    def wait_until_done(self, *, seconds: float = _SECONDS) -> None:
        """Until no task is pending or running."""
        self.wait_for(
            "SELECT 1 AS done WHERE NOT EXISTS (SELECT FROM tasks WHERE status IN ('pending', 'running'))",
            seconds=seconds,
        )

    def wait_until_listening(self, workers: int = 1) -> None:
        self.wait_for(
            "SELECT 1 AS enough FROM workers WHERE listen_state = 'listening' AND stopped_at IS NULL"
            " HAVING count(*) >= %s",
            [workers],
        )

    def sessions(self) -> list[Row]:
        """The connections of others to this database."""
        return self.execute(
            "SELECT pid, application_name, state, query FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'test'"
        )

    def picture(self) -> str:
        """What a failed assertion shows."""
        tasks = self.execute(
            "SELECT id, task_type, status, attempt, retry_count, lost_count, worker_id, lease_until, error_code"
            " FROM tasks ORDER BY status = 'success', id LIMIT 10"
        )
        workers = self.execute("SELECT id, listen_state, draining, running, stuck, beat_at, stopped_at FROM workers")
        return "\n".join(map(str, [*tasks, *workers]))

    def _execute(self, statement: LiteralString | sql.Composed, parameters: Parameters) -> psycopg.Cursor[Row]:
        """Over one connection, since most of these ask again and again. A server that was restarted is met anew."""
        if self._kept is None or self._kept.closed:
            self._kept = psycopg.connect(self.url, autocommit=True, row_factory=dict_row, application_name="test")
        try:
            return self._kept.execute(statement, parameters)
        except psycopg.OperationalError:
            if not self._kept.closed:
                raise
            return self._execute(statement, parameters)


@contextlib.contextmanager
def started() -> Iterator[OwnServer]:
    # Not pytest's own folder, which is private: as root the server runs as another account.
    folder = Path(tempfile.mkdtemp(prefix="xngin-test-", dir="/tmp"))
    folder.chmod(0o755)
    server = OwnServer(folder)
    try:
        yield server
    finally:
        server.clear_away()
        shutil.rmtree(folder)
