"""LISTEN: shortens the wait for new work. Polling stays the truth.

Whether notifications really arrive is verified end to end: the lease keeper sends a word from its own connection, and
it must come back here. Behind a pooler LISTEN succeeds and brings nothing; a database that restarted forgets it.
"""

import secrets
import threading
import time
from collections.abc import Callable, Mapping

import psycopg
from psycopg import sql

from taskqueue import events, telemetry
from taskqueue.database import Connection, Database, Kept
from taskqueue.service import Service
from taskqueue.text import message_of
from taskqueue.triggers import ECHO_CHANNEL

_VERIFY_SECONDS = 30.0
_PATIENCE_SECONDS = 5.0
_WAIT_SECONDS = 0.5


class Listener(Service):
    """``state`` is connecting, listening (an echo came), deaf (none came) or lost (no connection).

    ``hearers`` are those who want to hear of notifications, by channel. Each also hears when listening begins, since
    what was notified before is lost.
    """

    name = "listen"

    def __init__(
        self,
        *,
        database: Database,
        worker_id: str,
        hearers: Mapping[str, Callable[[], None]],
        on_change: Callable[[], None],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(on_failure=on_failure)
        self._kept = Kept(database, "listen")
        self._worker_id = worker_id
        self._hearers = hearers
        self._on_change = on_change
        self._lock = threading.Lock()
        self._state = "connecting"
        self._listening_on: Connection | None = None
        self._word = ""
        self._word_sent_at: float | None = None
        self._next_word_at = 0.0
        self._failures = 0

    @property
    def state(self) -> str:
        return self._state

    def word_to_send(self) -> str | None:
        """The word that the lease keeper shall send now, if any."""
        with self._lock:
            now = time.monotonic()
            if self._listening_on is None or self._word_sent_at is not None or now < self._next_word_at:
                return None
            self._word = secrets.token_hex(8)
            self._word_sent_at = now
            return self._word

    def look(self) -> float:
        try:
            with self._kept as connection:
                if self._listening_on is not connection:
                    self._begin(connection)
                for notification in connection.notifies(timeout=_WAIT_SECONDS, stop_after=1):
                    self._hear(notification)
                self._judge_silence()
        except psycopg.Error as error:
            self._failures += 1
            self._enter("lost", message_of(error))
            return min(0.05 * 2.0 ** min(self._failures, 5), 1.0)
        return 0.0

    def close(self) -> None:
        self._kept.close()

    def _begin(self, connection: Connection) -> None:
        for channel in (*self._hearers, ECHO_CHANNEL):
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        with self._lock:
            self._listening_on = connection
            self._word_sent_at = None
            self._next_word_at = 0.0
        # What was notified while nobody listened is found by looking once; the beat asks for an echo.
        for hear in self._hearers.values():
            hear()
        self._on_change()

    def _hear(self, notification: psycopg.Notify) -> None:
        if notification.channel != ECHO_CHANNEL:
            self._hearers[notification.channel]()
            return
        with self._lock:
            if notification.payload != self._word:
                return
            self._word_sent_at = None
            self._next_word_at = time.monotonic() + _VERIFY_SECONDS
        self._failures = 0
        self._enter("listening", "an echo came back")

    def _judge_silence(self) -> None:
        with self._lock:
            sent = self._word_sent_at
        if sent is not None and time.monotonic() - sent > _PATIENCE_SECONDS:
            self._enter(
                "deaf",
                "no echo comes back through LISTEN; is a pooler in transaction mode in between? "
                "Set XNGIN_PGBOUNCER=true to stop listening. Polling goes on",
            )
            # A new connection and a new LISTEN may mend it; if not, the next echo will not come either.
            self._kept.close()
            with self._lock:
                self._listening_on = None

    def _enter(self, state: str, reason: str) -> None:
        with self._lock:
            if state == "lost":
                self._listening_on = None
            previous, self._state = self._state, state
        if previous == state or (previous == "connecting" and state == "listening"):
            self._on_change()
            return
        telemetry.emit(events.LISTEN_CHANGED, worker_id=self._worker_id, state=state, previous=previous, reason=reason)
        self._on_change()
