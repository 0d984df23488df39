"""Writes a worker's counts to ``queue_minutes`` every ten seconds and once more at its end."""

import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from taskqueue import store
from taskqueue.database import Connection, Database, Kept
from taskqueue.minutes import Minutes
from taskqueue.outage import Outage
from taskqueue.service import Service

ROUND_SECONDS = 10.0


class MinuteWriter(Service):
    """Has a thread and a connection of its own, so that no claim, finish or lease waits for statistics.

    While the database is away the counts stay here. A process that is killed takes those of its last ten seconds along.
    """

    name = "minutes"

    def __init__(
        self,
        minutes: Minutes,
        *,
        database: Database,
        worker_id: str,
        outage_seconds: float,
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._minutes = minutes
        self._kept = Kept(database, self.name)
        self._worker_id = worker_id
        self._outage = Outage(worker_id=worker_id, part=self.name, limit_seconds=outage_seconds)
        # The machine's own clock, until the database has told what time it is.
        self._offset = time.time() - time.monotonic()

    def look(self) -> float:
        try:
            with self._kept as connection:
                self._write(connection)
            self._outage.over()
        except psycopg.Error as error:
            # Counted up at once, so that what waits is no more than a few sums.
            self._minutes.totals(self._offset)
            return self._outage.failed(error)
        # Between rounds the connection is given back: most databases count them.
        self._kept.close()
        return ROUND_SECONDS

    def close(self) -> None:
        """The last counts. They are not worth waiting for a database that is away."""
        with suppress(psycopg.Error), self._kept as connection:
            self._write(connection)
        self._kept.close()

    def _write(self, connection: Connection) -> None:
        self._offset = store.epoch(connection) - time.monotonic()
        totals = self._minutes.totals(self._offset)
        if totals:
            store.count_minutes(connection, self._worker_id, totals)
        self._minutes.confirm()
