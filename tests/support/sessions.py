"""Sessions of the queue as workers open them, and what tests do through them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from taskqueue import store
from taskqueue.database import Connection, Database
from taskqueue.records import Claim, Room, Serving

DEADLINE_SECONDS = 20.0
TASK_TYPE = "test.noop"

type Connect = Callable[[], Connection]


@contextmanager
def sessions() -> Iterator[Connect]:
    """A function that opens sessions with the queue's own settings; all are closed at the end."""
    with ExitStack() as stack:

        def connect() -> Connection:
            connection = stack.enter_context(closing(Database(name="test").open("session")))
            # Without the mark django_db no database is made for the run, and this would be the developer's own.
            assert connection.info.dbname.startswith("test_"), "mark this test with django_db"
            return connection

        yield connect


def serving_of(
    *task_types: str, worker_id: str = "worker-a", queues: tuple[str, ...] | None = None, lease_seconds: float = 60.0
) -> Serving:
    return Serving(
        task_types=task_types or (TASK_TYPE,), queues=queues, worker_id=worker_id, lease_seconds=lease_seconds
    )


def room_of(slots: int = 16, *, last_chance_free: bool = True) -> Room:
    return Room(slots=slots, window=3 * slots, last_chance_free=last_chance_free)


def claim(connection: Connection, serving: Serving | None = None, room: Room | None = None) -> list[Claim]:
    """By worker-a, unless another is named."""
    return store.claim(connection, serving or serving_of(), room or room_of())


def reclaim(connection: Connection, serving: Serving | None = None, room: Room | None = None) -> list[Claim]:
    """By worker-b, unless another is named."""
    return store.reclaim(connection, serving or serving_of(worker_id="worker-b"), room or room_of())


def expire_leases(connection: Connection) -> None:
    """Age what runs, as if its workers had been silent for longer than their leases."""
    connection.execute("UPDATE tasks SET lease_until = now() - interval '1 s' WHERE status = 'running'")


def wait_until_blocked(watcher: Connection, blocked: Connection | None = None, *, count: int = 1) -> None:
    """Until the other session waits for a lock; until so many of this database do, when none is named."""
    pid = blocked.info.backend_pid if blocked is not None else None
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / 0.01)):
        waiting = watcher.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND (pid = %(pid)s::int OR %(pid)s::int IS NULL)",
            {"pid": pid},
        ).fetchall()
        if len(waiting) >= count:
            return
        pause.wait(0.01)
    raise AssertionError("nobody waits for a lock")
