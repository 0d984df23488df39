"""A query is interrupted when its time is up or its session cancelled, and no other one is."""

from __future__ import annotations

import threading
import time

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.watchdog import Watchdog

_DEADLINE = 10.0


class Query:
    """Runs until it was interrupted ``deaf`` times and once more."""

    def __init__(self, *, deaf: int = 0) -> None:
        self.interruptions = 0
        self.hung_up = threading.Event()
        self.started = threading.Event()
        self._deaf = deaf
        self._ended = threading.Event()

    def interrupt(self) -> None:
        self.interruptions += 1
        if self.interruptions > self._deaf:
            self._ended.set()

    def hang_up(self) -> None:
        self.hung_up.set()
        self._ended.set()

    def run(self) -> None:
        self.started.set()
        assert self._ended.wait(_DEADLINE)


def test_a_query_within_its_time_is_left_alone() -> None:
    query = Query()
    watchdog = Watchdog(query.interrupt, seconds=_DEADLINE)
    with watchdog.watching():
        pass
    assert query.interruptions == 0
    assert watchdog.why() is None


def test_a_query_whose_time_is_up_is_interrupted() -> None:
    query = Query()
    watchdog = Watchdog(query.interrupt, seconds=0.01)
    with watchdog.watching():
        query.run()
    why = watchdog.why()
    assert why is not None
    assert why.code == "timeout"
    assert "0.01 s" in str(why)


def test_an_interruption_that_comes_too_early_is_repeated() -> None:
    query = Query(deaf=2)
    watchdog = Watchdog(query.interrupt, seconds=0.01)
    with watchdog.watching():
        query.run()
    assert query.interruptions == 3


def test_a_query_that_is_not_impressed_is_hung_up_on() -> None:
    query = Query(deaf=1_000)
    watchdog = Watchdog(query.interrupt, seconds=0.01, hang_up=query.hang_up, patience_seconds=0.1)
    with watchdog.watching():
        query.run()
    assert query.hung_up.is_set()


def test_cancelling_returns_at_once_and_refuses_further_queries() -> None:
    query = Query()
    watchdog = Watchdog(query.interrupt, seconds=_DEADLINE)

    def run() -> None:
        with watchdog.watching():
            query.run()

    runner = threading.Thread(target=run)
    runner.start()
    assert query.started.wait(_DEADLINE)
    watchdog.cancel()
    runner.join(_DEADLINE)
    assert not runner.is_alive()
    why = watchdog.why()
    assert why is not None
    assert why.code == "cancelled"
    with pytest.raises(DatasourceError, match="cancelled"), watchdog.watching():
        raise AssertionError("the next query was begun")


def test_cancelling_is_not_held_up_by_an_interruption_that_hangs() -> None:
    release, entered = threading.Event(), threading.Event()

    def interrupt() -> None:
        entered.set()
        release.wait(_DEADLINE)

    watchdog = Watchdog(interrupt, seconds=0.01)
    with watchdog.watching():
        assert entered.wait(_DEADLINE)
        before = time.monotonic()
        watchdog.cancel()
        assert time.monotonic() - before < _DEADLINE / 2
        release.set()


def test_the_next_query_is_not_hit_by_the_interruption_of_the_last() -> None:
    interrupted: list[str] = []
    current = "first"
    entered, release = threading.Event(), threading.Event()

    def interrupt() -> None:
        entered.set()
        release.wait(_DEADLINE)
        interrupted.append(current)

    watchdog = Watchdog(interrupt, seconds=0.05)
    threading.Timer(0.2, release.set).start()
    with watchdog.watching():
        assert entered.wait(_DEADLINE)
    current = "second"
    with watchdog.watching():
        pass
    assert interrupted == ["first"]
    assert watchdog.why() is None
