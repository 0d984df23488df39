"""The pool of threads: who runs when, and that nothing is left lying."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from taskqueue.handlers import Handler
from taskqueue.records import Claim
from taskqueue.running import Held
from taskqueue.slots import Slots

_DEADLINE_SECONDS = 20.0


def _held(number: int) -> Held:
    claim = Claim(
        id=f"task_{number}",
        task_type="test",
        payload=None,
        queue="default",
        priority=0,
        retry_count=0,
        max_retries=None,
        attempt=1,
        lost_count=0,
        correlation_id="",
        waited_seconds=0.0,
    )
    return Held(claim=claim, handler=Handler(task_type="test", function=print), deadline=0.0, claimed_at=0.0)


@contextmanager
def _slots(count: int, run: Callable[[Held], Any]) -> Iterator[Slots]:
    slots = Slots(count, run)
    try:
        yield slots
    finally:
        slots.stop()
        assert slots.join(_DEADLINE_SECONDS)


def test_handlers_that_wait_for_each_other_all_run_at_once() -> None:
    together = threading.Barrier(16)
    passed = threading.Semaphore(0)

    def meet(_held: Held) -> None:
        together.wait(_DEADLINE_SECONDS)
        passed.release()

    with _slots(16, meet) as slots:
        for round_number in range(3):
            for number in range(16):
                slots.submit(_held(16 * round_number + number))
            for _ in range(16):
                assert passed.acquire(timeout=_DEADLINE_SECONDS)


def test_a_claim_does_not_wait_for_the_handler_before_it() -> None:
    first_began, first_may_end, second_ran = threading.Event(), threading.Event(), threading.Event()

    def run(held: Held) -> None:
        if held.claim.id == "task_1":
            first_began.set()
            assert first_may_end.wait(_DEADLINE_SECONDS)
        else:
            second_ran.set()

    with _slots(2, run) as slots:
        slots.submit(_held(1))
        assert first_began.wait(_DEADLINE_SECONDS)
        slots.submit(_held(2))
        try:
            assert second_ran.wait(_DEADLINE_SECONDS)
        finally:
            first_may_end.set()


def test_every_claim_runs_exactly_once_under_a_storm_of_submits() -> None:
    total, slots_count = 20_000, 8
    ran: list[str] = []
    room = threading.Semaphore(slots_count)
    done = threading.Semaphore(0)

    def run(held: Held) -> None:
        ran.append(held.claim.id)
        room.release()
        done.release()

    with _slots(slots_count, run) as slots:
        for number in range(total):
            assert room.acquire(timeout=_DEADLINE_SECONDS)
            slots.submit(_held(number))
        for _ in range(total):
            assert done.acquire(timeout=_DEADLINE_SECONDS)
    assert sorted(ran) == sorted(f"task_{number}" for number in range(total))


def test_claims_that_wait_at_the_stop_are_still_run() -> None:
    began, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    def run(held: Held) -> None:
        began.set()
        assert may_end.wait(_DEADLINE_SECONDS)
        ran.append(held.claim.id)

    with _slots(1, run) as slots:
        slots.submit(_held(1))
        assert began.wait(_DEADLINE_SECONDS)
        slots.submit(_held(2))
        slots.stop()
        may_end.set()
    assert ran == ["task_1", "task_2"]
