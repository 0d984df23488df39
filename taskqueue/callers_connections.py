"""Django's connections while a handler runs in its caller's thread, which may have transactions open of its own."""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from taskqueue.handler_connections import HandlerConnections, discard


class CallersConnections(HandlerConnections):
    """For one attempt: ``before`` it, the executor calls ``after`` when the handler has ended.

    In a worker what a handler wrote before it raised stays, since nobody put a transaction around it. Here the caller
    may have: what was written stays there too, unless the database refused a statement, when all goes back to where
    the attempt began, so that the caller's transaction stays usable.
    """

    def __init__(self) -> None:
        super().__init__()
        self._savepoints: dict[str, tuple[str | None, int]] = {}

    def before(self) -> None:
        # Savepoints of Django's low level: within an ``atomic`` of ours a handler's ``atomic(durable=True)`` would be
        # refused in a ``TestCase``, which marks only its own as harmless.
        self._savepoints = {
            connection.alias: (connection.savepoint(), len(connection.run_on_commit))
            for connection in connections.all(initialized_only=True)
            if connection.in_atomic_block
        }

    def after(self) -> None:
        for connection in connections.all(initialized_only=True):
            if connection.alias in self._savepoints:
                self._settle(connection, *self._savepoints[connection.alias])
            elif connection.in_atomic_block or (connection.connection is not None and not connection.get_autocommit()):
                # The handler left a transaction open that nobody else will end.
                discard(connection)
        self._savepoints = {}

    def _settle(self, connection: BaseDatabaseWrapper, savepoint: str | None, callbacks: int) -> None:
        if savepoint is None:
            return
        if not _broken(connection):
            connection.savepoint_commit(savepoint)
            return
        connection.set_rollback(False)
        connection.savepoint_rollback(savepoint)
        # What was to happen on commit of that which has just been undone.
        del connection.run_on_commit[callbacks:]


def _broken(connection: BaseDatabaseWrapper) -> bool:
    raw: Any = connection.connection
    return connection.needs_rollback or (
        connection.vendor == "postgresql" and raw.info.transaction_status is TransactionStatus.INERROR
    )
