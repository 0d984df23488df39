"""The queue's own connections: never a handler's, always in autocommit, with plans that do not depend on statistics."""

from typing import Any, Self

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
# A peer that vanished is noticed within twenty seconds instead of the kernel's hours.
_NETWORK = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}


class Database:
    """Opens connections to the database of a Django alias for one worker.

    ``pgbouncer``: a pooler in transaction mode stands in between, so no session settings and no prepared statements.
    """

    def __init__(self, *, alias: str = "default", pgbouncer: bool = False, name: str = "xngin-worker") -> None:
        self.alias = alias
        self.pgbouncer = pgbouncer
        self._name = name

    def open(self, purpose: str) -> Connection:
        """A new connection whose ``application_name`` tells an operator what it is for. Raises ``psycopg.Error``."""
        parameters: dict[str, Any] = dict(connections[self.alias].get_connection_params())
        for key in ("cursor_factory", "context", "prepare_threshold", "client_encoding"):
            parameters.pop(key, None)
        parameters = {**_NETWORK, **parameters, "application_name": f"{self._name}: {purpose}"}
        if not self.pgbouncer:
            ours = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
            parameters["options"] = f"{parameters.get('options', '')} {ours}".strip()
        connection: Connection = psycopg.connect(
            **parameters, autocommit=True, prepare_threshold=None if self.pgbouncer else 0
        )
        return connection


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
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def opened(self) -> Self:
        with self:
            return self
