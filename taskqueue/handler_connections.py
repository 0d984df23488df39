"""Django's database connections of a slot: clean when a handler starts, kept open from one task to the next.

Reconnecting for each task, as Django does between requests by default, costs two thirds of the speed.
"""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper


class HandlerConnections:
    """The connections of the calling thread, made ready after each handler for the next one.

    ``pooled``: a pooler in transaction mode stands in between, so there is no session state to reset, and resetting
    would hit another program's session.
    """

    def __init__(self, *, pooled: bool = False) -> None:
        self._pooled = pooled

    def after(self) -> None:
        """Roll back what was left open and undo session settings. What cannot be cleaned or is too old is closed.

        Of what stays, the next handler's first use checks that the server still answers.
        """
        for connection in connections.all(initialized_only=True):
            if not _was_used(connection):
                continue
            try:
                clean = self._clean(connection)
            except Exception:  # noqa: BLE001 - whatever is wrong with it, the next handler gets a new connection
                clean = False
            if not clean:
                discard(connection)

    def close(self) -> None:
        connections.close_all()

    def _clean(self, connection: BaseDatabaseWrapper) -> bool:
        if connection.connection is None or connection.in_atomic_block or not connection.get_autocommit():
            return False
        if connection.vendor != "postgresql":
            return True
        raw: Any = connection.connection
        if raw.closed or connection.errors_occurred:
            return False
        if raw.info.transaction_status.name != "IDLE":
            raw.rollback()
        if not self._pooled:
            raw.execute("DISCARD ALL")
            # What belongs to Django's own session (time zone, role) comes back at once.
            connection.init_connection_state()
        connection.close_if_unusable_or_obsolete()
        connection.queries_log.clear()
        return True


def _was_used(connection: Any) -> bool:
    """Django marks the health check of a connection as done at its first use since its last cleaning asked for one."""
    if connection.connection is None:
        return bool(connection.in_atomic_block)
    return bool(connection.health_check_done or not connection.health_check_enabled)


def discard(connection: BaseDatabaseWrapper) -> None:
    """Give up a connection, whatever state it was left in; its next use opens a new one."""
    # Within an atomic block Django would only mark the connection; leaving the block is what the handler failed to do.
    connection.in_atomic_block = False
    connection.needs_rollback = False
    connection.closed_in_transaction = False
    connection.run_on_commit = []
    try:
        connection.close()
    except Exception:  # noqa: BLE001 - a task that succeeded does not fail because its connection cannot be closed
        connection.connection = None
