"""How long a part of the worker has been without the database, and when it gives up."""

import time

import psycopg

from taskqueue import events, telemetry
from taskqueue.text import message_of

_MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction)


class OutageTooLong(Exception):
    """The database stayed away longer than the worker was told to wait."""


class NotMigrated(Exception):
    """The database answers and lacks what this version needs; waiting would not help."""


class Outage:
    """Told of every failure and success of one part. Says "lost" and "back" once each."""

    def __init__(self, *, worker_id: str, part: str, limit_seconds: float) -> None:
        self._worker_id = worker_id
        self._part = part
        self._limit = limit_seconds
        self._since: float | None = None
        self._failures = 0
        self._ever_worked = False

    @property
    def lasting(self) -> bool:
        return self._since is not None

    def failed(self, error: psycopg.Error) -> float:
        """Seconds to wait before the next try. Raises ``OutageTooLong`` when the limit has passed."""
        if isinstance(error, _MISSING) and not self._ever_worked:
            # Later on it is an outage like any other: a dump is being restored, say.
            raise NotMigrated(f"run migrate: this database lacks tables of the queue ({_first_line(error)})") from error
        now = time.monotonic()
        if self._since is None:
            self._since = now
            telemetry.emit(events.DATABASE_LOST, worker_id=self._worker_id, part=self._part, reason=message_of(error))
        if now - self._since > self._limit:
            raise OutageTooLong(
                f"no usable database for {now - self._since:.0f} s; last error: {message_of(error)}"
            ) from error
        self._failures += 1
        return min(0.05 * 2.0 ** min(self._failures, 5), 1.0)

    def over(self) -> None:
        self._ever_worked = True
        if self._since is None:
            return
        telemetry.emit(
            events.DATABASE_BACK,
            worker_id=self._worker_id,
            part=self._part,
            outage_seconds=round(time.monotonic() - self._since, 3),
        )
        self._since, self._failures = None, 0


def _first_line(error: psycopg.Error) -> str:
    return message_of(error).partition("\n")[0]
