"""A real worker beside the test: the loops of ``runworker`` that run tasks, in threads of this process."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db import connections, router

from taskqueue import events
from taskqueue.database import Database
from taskqueue.handlers import Registry, registry
from taskqueue.lease import KeeperPlan, LeaseKeeper
from taskqueue.lifecycle import FINAL, Status
from taskqueue.listener import Listener
from taskqueue.models import Task
from taskqueue.records import Serving
from taskqueue.retry import DEFAULT_MAX_RETRIES
from taskqueue.running import Running
from taskqueue.service import Service
from taskqueue.triggers import CHANNEL
from taskqueue.worker import TaskWorker, WorkerPlan

_LEASE_SECONDS = 60.0
_POLL_SECONDS = 1.0
_ENDING_SECONDS = 30.0
_MOVES = (events.RUN, events.RETRY, events.EXHAUSTED, events.RELEASED, events.CLAIM_LOST)


class RunningWorker:
    """What a test may ask of the worker. Its waits raise ``AssertionError`` when their time is up."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self._changed = threading.Condition()
        self._idle = 0
        self._moves = 0
        self._failure: BaseException | None = None
        self._look: Callable[[], None] = lambda: None

    def wait_for(self, task_id: str, *, timeout: float = 30.0) -> Task:
        """Until the task is finished, as it then is."""
        deadline = time.monotonic() + timeout
        while True:
            seen = self._moves
            task = Task.objects.using(router.db_for_write(Task)).get(id=task_id)
            if Status(task.status) in FINAL:
                return task
            self._wait(partial(self._moved_since, seen), deadline, f"{task_id} is still {task.status}")

    def wait_until_idle(self, *, timeout: float = 30.0) -> None:
        """Until nothing is due and nothing runs. Tasks that wait for a retry or their time are not due."""
        deadline = time.monotonic() + timeout
        # Twice: the first look may have been under way before the test committed its last task.
        for _ in range(2):
            seen = self._idle
            self._look()
            self._wait(partial(self._idle_since, seen), deadline, "the worker is still busy")

    def _wait(self, happened: Callable[[], bool], deadline: float, problem: str) -> None:
        with self._changed:
            done = self._changed.wait_for(
                lambda: happened() or self._failure is not None, max(deadline - time.monotonic(), 0.0)
            )
        self.raise_failure()
        if not done:
            raise AssertionError(problem)

    def _moved_since(self, seen: int) -> bool:
        return self._moves > seen

    def _idle_since(self, seen: int) -> bool:
        return self._idle > seen

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def look_by(self, look: Callable[[], None]) -> None:
        self._look = look

    def on_idle(self) -> None:
        with self._changed:
            self._idle += 1
            self._changed.notify_all()

    def on_move(self, **_: Any) -> None:
        with self._changed:
            self._moves += 1
            self._changed.notify_all()

    def on_failure(self, part: str, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()


@contextmanager
def running_worker(
    *,
    slots: int = 4,
    queues: Sequence[str] | None = None,
    max_retries: int = DEFAULT_MAX_RETRIES,
    handlers: Registry = registry,
) -> Iterator[RunningWorker]:
    """A worker that claims, renews leases and listens while the block runs, and drains at its end.

    It sees committed tasks only, so it needs a ``TransactionTestCase`` or ``django_db(transaction=True)``; raises
    ``RuntimeError`` within a transaction. Raises also what made one of its parts fail.
    """
    alias = router.db_for_write(Task)
    if connections[alias].in_atomic_block:
        raise RuntimeError(
            "a worker cannot see what this test has not committed: use TransactionTestCase or"
            " pytest.mark.django_db(transaction=True), or run the tasks with drain_due()"
        )
    told = RunningWorker(f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")
    running = Running(slots)
    worker, keeper, listener = _parts(
        told, running, handlers, Database(alias=alias, name="test worker"), queues, max_retries
    )
    told.look_by(worker.work_may_be_due)
    for event in _MOVES:
        event.signal.connect(told.on_move)
    services: list[Service] = [keeper, listener, worker]
    try:
        for service in services:
            service.start()
        yield told
        told.raise_failure()
    finally:
        worker.drain()
        deadline = time.monotonic() + _ENDING_SECONDS
        drained = worker.join(0.0) or _until(lambda: worker.drained, deadline)
        if not drained:
            worker.release()
            _until(lambda: worker.drained, time.monotonic() + _ENDING_SECONDS)
        for service in reversed(services):
            service.stop()
        for service in reversed(services):
            service.join(_ENDING_SECONDS)
        # They close the connections of their handlers, which would keep the test's database from being dropped.
        worker.join_slots(_ENDING_SECONDS)
        for event in _MOVES:
            event.signal.disconnect(told.on_move)
    told.raise_failure()
    if not drained:
        raise AssertionError("a handler of the test still ran when its worker was stopped")


def _parts(
    told: RunningWorker,
    running: Running,
    handlers: Registry,
    database: Database,
    queues: Sequence[str] | None,
    max_retries: int,
) -> tuple[TaskWorker, LeaseKeeper, Listener]:
    serving = Serving(
        task_types=tuple(sorted(handlers.handlers)),
        queues=None if queues is None else tuple(queues),
        worker_id=told.worker_id,
        lease_seconds=_LEASE_SECONDS,
    )
    worker = TaskWorker(
        WorkerPlan(
            serving=serving,
            poll_seconds=_POLL_SECONDS,
            default_max_retries=max_retries,
            outage_seconds=_ENDING_SECONDS,
            max_tasks=0,
            on_end=lambda reason: None,
            on_idle=told.on_idle,
        ),
        database=database,
        registry=handlers,
        running=running,
        on_failure=told.on_failure,
        on_drained=lambda: None,
    )
    keeper = LeaseKeeper(
        KeeperPlan(
            serving=serving,
            version="test",
            outage_seconds=_ENDING_SECONDS,
            draining=lambda: False,
            tries=worker.tries,
            deliver=worker.deliver,
            on_all_stuck=partial(told.on_failure, "tasks", RuntimeError("stuck handlers hold every slot")),
        ),
        database=database,
        running=running,
        on_failure=told.on_failure,
    )
    listener = Listener(
        database=database,
        worker_id=told.worker_id,
        hearers={CHANNEL: worker.work_may_be_due},
        on_change=keeper.wake,
        on_failure=told.on_failure,
    )
    keeper.listen_with(listener)
    return worker, keeper, listener


def _until(happened: Callable[[], bool], deadline: float) -> bool:
    pause = threading.Event()
    while not happened():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.005)
    return True
