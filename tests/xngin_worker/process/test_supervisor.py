"""What the supervisor makes of services that fail: the rest is drained when that is possible, else given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from taskqueue.outage import NotMigrated
from taskqueue.service import Service
from xngin_worker.process.signals import SignalPipe
from xngin_worker.process.starter import Starter
from xngin_worker.process.supervisor import ExitCode, Half, Supervisor

VITAL = "vital part"


class Failing(Service):
    def __init__(self, name: str, error: Exception, *, on_failure: Callable[[str, BaseException], None]) -> None:
        super().__init__(on_failure=on_failure)
        self.name = name
        self._error = error

    def look(self) -> float:
        raise self._error


class Work:
    """Runs until it is released, or done, which is some time after draining began."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._over = threading.Event()
        self.released = 0
        self._timer = threading.Timer(0.2, self._done)

    def half(self) -> Half:
        return Half(
            vital=frozenset({VITAL}),
            drain=self._timer.start,
            release=self._release,
            settled=self._over.is_set,
            held=lambda: int(not self._over.is_set()),
            released=lambda: self.released,
        )

    def clear_away(self) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()

    def _done(self) -> None:
        self._over.set()
        self._supervisor.progress()

    def _release(self) -> None:
        self.released = int(not self._over.is_set())
        self._over.set()


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor(worker_id="worker", drain_timeout_seconds=30, pipe=SignalPipe(), starter=Starter(shell=None))


@pytest.fixture
def work(supervisor: Supervisor) -> Iterator[Work]:
    work = Work(supervisor)
    yield work
    work.clear_away()


def test_what_runs_is_drained_when_a_part_fails_that_it_does_not_need(supervisor: Supervisor, work: Work) -> None:
    failing = Failing("some part", RuntimeError("broken"), on_failure=supervisor.fail)

    assert supervisor.run([failing], [work.half()]) is ExitCode.FAILED

    assert work.released == 0


def test_what_runs_is_given_back_at_once_when_a_part_fails_that_it_needs(supervisor: Supervisor, work: Work) -> None:
    failing = Failing(VITAL, RuntimeError("broken"), on_failure=supervisor.fail)

    assert supervisor.run([failing], [work.half()]) is ExitCode.FAILED

    assert work.released == 1


def test_missing_tables_are_a_wrong_configuration(supervisor: Supervisor, work: Work) -> None:
    failing = Failing(VITAL, NotMigrated("run migrate"), on_failure=supervisor.fail)

    assert supervisor.run([failing], [work.half()]) is ExitCode.CONFIGURATION
