"""No destination takes more than its share, and those who wait come back one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest

from taskqueue.errors import Snooze
from taskqueue.webhook import fairness
from taskqueue.webhook.fairness import GUESSED_SECONDS, LONGEST_WAIT_SECONDS, MOST_DESTINATIONS, Destinations


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refused_wait(destinations: Destinations, destination: str) -> float:
    with pytest.raises(Snooze, match="busy") as refusal, destinations.slot(destination):
        raise AssertionError("there was a slot")
    assert isinstance(refusal.value.until, timedelta)
    return refusal.value.until.total_seconds()


def measured(destinations: Destinations, clock: Clock, destination: str, seconds: float) -> None:
    for _ in range(50):
        with destinations.slot(destination):
            clock.now += seconds


def test_more_than_the_limit_is_refused_and_others_are_served() -> None:
    destinations = Destinations(limit=2)
    with destinations.slot("a:80"), destinations.slot("a:80"):
        refused_wait(destinations, "a:80")
        with destinations.slot("b:80"):
            pass
    with destinations.slot("a:80"):
        pass


def test_slot_comes_back_after_an_error() -> None:
    destinations = Destinations(limit=1)
    with pytest.raises(ZeroDivisionError), destinations.slot("a:80"):
        raise ZeroDivisionError
    with destinations.slot("a:80"):
        pass


def test_waiting_tasks_get_turns_as_far_apart_as_deliveries_take(clock: Clock) -> None:
    destinations = Destinations(limit=4, clock=clock, chance=lambda: 0.0)
    measured(destinations, clock, "slow:80", 8.0)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(destinations.slot("slow:80"))
        waits = [refused_wait(destinations, "slow:80") for _ in range(5)]
    assert waits == pytest.approx([2.0, 4.0, 6.0, 8.0, 10.0], rel=0.01)


def test_ten_thousand_waiting_tasks_come_back_spread_within_the_longest_wait(clock: Clock) -> None:
    chances = iter([(number % 1000) / 1000 for number in range(20_000)])
    destinations = Destinations(limit=4, clock=clock, chance=lambda: next(chances))
    measured(destinations, clock, "slow:80", 10.0)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(destinations.slot("slow:80"))
        waits = [refused_wait(destinations, "slow:80") for _ in range(10_000)]
        clock.now += LONGEST_WAIT_SECONDS
        assert refused_wait(destinations, "slow:80") < LONGEST_WAIT_SECONDS / 10
    assert max(waits) <= LONGEST_WAIT_SECONDS
    busiest = max(sum(second <= wait < second + 1 for wait in waits) for second in range(300))
    assert busiest < 100


@pytest.mark.parametrize("slow_seconds", [0.0, 10.0], ids=["fresh worker", "after one slow answer"])
def test_a_burst_to_a_fast_destination_is_not_held_up_by_early_guesses(clock: Clock, slow_seconds: float) -> None:
    destinations = Destinations(limit=4, clock=clock, chance=lambda: 0.0)
    if slow_seconds:
        measured(destinations, clock, "fast:80", 0.002)
        with destinations.slot("fast:80"):
            clock.now += slow_seconds
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(destinations.slot("fast:80"))
        first_waits = [refused_wait(destinations, "fast:80") for _ in range(40)]
        clock.now += 0.002
    measured(destinations, clock, "fast:80", 0.002)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(destinations.slot("fast:80"))
        later_wait = refused_wait(destinations, "fast:80")
    assert max(first_waits) < 2.0
    assert later_wait <= 0.1


def test_first_wait_before_anything_was_measured_is_a_guess(clock: Clock) -> None:
    destinations = Destinations(limit=1, clock=clock, chance=lambda: 0.0)
    with destinations.slot("a:80"):
        assert refused_wait(destinations, "a:80") == pytest.approx(GUESSED_SECONDS)


def test_limit_holds_among_threads() -> None:
    destinations = Destinations(limit=3)
    lock = threading.Lock()
    inside = 0
    most = 0

    def deliver(number: int) -> bool:
        nonlocal inside, most
        try:
            with destinations.slot("a:80"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                threading.Event().wait(0.001)
                with lock:
                    inside -= 1
        except Snooze:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        delivered = list(pool.map(deliver, range(300)))
    assert most <= 3
    assert any(delivered) and not all(delivered)


def test_memory_is_bounded_and_deliveries_under_way_stay_known() -> None:
    destinations = Destinations(limit=1)
    with destinations.slot("kept:80"):
        for number in range(MOST_DESTINATIONS * 3):
            with destinations.slot(f"host-{number}:80"):
                pass
        assert len(destinations) <= MOST_DESTINATIONS
        refused_wait(destinations, "kept:80")


@pytest.fixture
def own_limit() -> Iterator[None]:
    before = fairness.of_this_process().limit
    yield
    fairness.of_this_process().limit = before


@pytest.mark.usefixtures("own_limit")
@pytest.mark.parametrize(("slots", "limit"), [(1, 1), (3, 1), (4, 1), (8, 2), (16, 4), (17, 4), (50, 12)])
def test_a_quarter_of_the_workers_slots_but_at_least_one(slots: int, limit: int) -> None:
    fairness.configure(slots=slots)
    assert fairness.of_this_process().limit == limit
