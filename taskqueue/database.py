"""The queue's own connections: never a handler's, always in autocommit, with plans that do not depend on statistics."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import psycopg
from django.db import connections
from psycopg.rows import TupleRow

type Connection = psycopg.Connection[TupleRow]

# A claim must use its index from the first row on: a plan made for an empty table would be kept and scan a full one.
# Role defaults such as a 50 ms statement_timeout are meant for other programs of the same role.
_SESSION = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
}
# For statements that read a good part of their tables. A plan made for an empty table still probes by indexes.
HASHING: Mapping[str, str] = MappingProxyType({**_SESSION, "enable_hashjoin": "on"})
# A peer that vanished is noticed within twenty seconds instead of the kernel's hours.
_NETWORK = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}


# What is said of a prepared statement by a server session that another client prepared, or did not prepare, it in.
_FOREIGN_SESSION = (psycopg.errors.DuplicatePreparedStatement, psycopg.errors.InvalidSqlStatementName)


class Database:
    """Opens connections to the database of a Django alias for one worker.

    ``pgbouncer``: a pooler in transaction mode stands in between, so no session settings and no prepared statements.
    Where one stands unannounced it is noticed (``pooled``), since then a prepared statement may be another client's.
    ``session`` are the settings of its sessions, the queue's own unless others are given.
    """

    def __init__(
        self,
        *,
        alias: str = "default",
        pgbouncer: bool = False,
        name: str = "xngin-worker",
        session: Mapping[str, str] = MappingProxyType(_SESSION),
    ) -> None:
        self.alias = alias
        self.pgbouncer = pgbouncer
        self.pooled = pgbouncer
        self._name = name
        self._session = session

    def open(self, purpose: str) -> Connection:
        """A new connection whose ``application_name`` tells an operator what it is for. Raises ``psycopg.Error``."""
        parameters: dict[str, Any] = dict(connections[self.alias].get_connection_params())
        for key in ("cursor_factory", "context", "prepare_threshold"):
            parameters.pop(key, None)
        parameters = {**_NETWORK, **parameters, "application_name": f"{self._name}: {purpose}"}
        if not self.pooled:
            connection = self._connect_directly(parameters)
            if connection is not None:
                return connection
            self.pooled = True
        pooled: Connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
        return pooled

    def blame(self, error: BaseException | None) -> None:
        """Learn from an error of one of these connections."""
        if isinstance(error, _FOREIGN_SESSION):
            self.pooled = True

    def _connect_directly(self, parameters: dict[str, Any]) -> Connection | None:
        """A connection whose session is the server's own; None when a pooler is in between."""
        ours = " ".join(f"-c {name}={value}" for name, value in self._session.items())
        options = f"{parameters.get('options', '')} {ours}".strip()
        try:
            connection: Connection = psycopg.connect(
                **{**parameters, "options": options}, autocommit=True, prepare_threshold=0
            )
        except psycopg.OperationalError as error:
            # PgBouncer's words; the server itself takes options, or names the setting that it does not know.
            if "unsupported startup parameter" in str(error):
                return None
            raise
        session = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        # A pooler tells its clients a number of its own, by which it routes their wish to cancel.
        if session is not None and session[0] == connection.info.backend_pid:
            return connection
        connection.close()
        return None


class Kept:
    """One connection that is opened when first needed and given up after an error.

    Use it as ``with kept as connection``: an exception of the driver closes the connection, so that the next use
    starts fresh.
    """

    def __init__(self, database: Database, purpose: str) -> None:
        self._database = database
        self._purpose = purpose
        self._connection: Connection | None = None

    def __enter__(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.open(self._purpose)
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._database.blame(error)
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
