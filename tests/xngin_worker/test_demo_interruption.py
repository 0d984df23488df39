"""What breaks into the demo: the first signal once, never inside a stretch that is held back, and a step's deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import pytest

from xngin_worker.demo.interruption import DeadlinePassed, Interruption, Stopped
from xngin_worker.demo.steps import DemoFailed, Result, Steps

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    before = {number: signal.getsignal(number) for number in CAUGHT}
    interruption = Interruption()
    interruption.install()
    yield interruption
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_breaks_in_and_those_after_it_do_not(interruption: Interruption, number: int) -> None:
    with pytest.raises(Stopped) as caught:
        os.kill(os.getpid(), number)
    assert caught.value.number == number
    os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_waits_for_the_end_of_what_must_not_be_left_half_done(interruption: Interruption) -> None:
    done = False
    with pytest.raises(Stopped), interruption.held_back():
        os.kill(os.getpid(), signal.SIGTERM)
        done = True
    assert done


def test_nothing_breaks_into_the_end(interruption: Interruption) -> None:
    interruption.ignore()
    os.kill(os.getpid(), signal.SIGTERM)
    with interruption.held_back():
        os.kill(os.getpid(), signal.SIGINT)


def test_a_step_that_takes_too_long_fails_by_its_name(interruption: Interruption) -> None:
    told: list[Result] = []
    steps = Steps(busy=lambda _name: contextlib.nullcontext(), told=told.append)
    started = time.monotonic()
    with (
        pytest.raises(DemoFailed, match=r"'slow' failed: it was not done after 0\.1 seconds"),
        steps.step("slow", within_seconds=0.1),
    ):
        time.sleep(30)
    assert time.monotonic() - started < 10
    assert [(result.name, result.passed) for result in told] == [("slow", False)]


def test_the_deadline_of_a_step_ends_with_it(interruption: Interruption) -> None:
    steps = Steps(busy=lambda _name: contextlib.nullcontext(), told=lambda _result: None)
    with steps.step("fast", within_seconds=0.2):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_any_error_is_the_failure_of_its_step_on_one_line(interruption: Interruption) -> None:
    steps = Steps(busy=lambda _name: contextlib.nullcontext(), told=lambda _result: None)
    with (
        pytest.raises(DemoFailed, match="ValueError: first second") as caught,
        steps.step("broken", within_seconds=5),
    ):
        raise ValueError("first\n second")
    assert caught.value.step == "broken"
    assert not issubclass(DeadlinePassed, Exception)
