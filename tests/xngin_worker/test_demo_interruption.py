"""What breaks into the demo: the first signal once, never inside a stretch that is held back, and a step's deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import pytest

from xngin_worker.demo.interruption import PATIENCE_SECONDS, DeadlinePassed, Interruption, Stopped
from xngin_worker.demo.steps import DemoFailed, Steps

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


@pytest.fixture
def steps(interruption: Interruption) -> Steps:
    return Steps(interruption=interruption, busy=lambda _name: contextlib.nullcontext(), told=lambda _result: None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_raised_where_the_demo_waits(interruption: Interruption, number: int) -> None:
    os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Stopped) as caught:
        interruption.pause(0)
    assert caught.value.number == number


def test_a_signal_breaks_into_what_does_not_come_to_an_end(interruption: Interruption) -> None:
    started = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Stopped):
        time.sleep(30)
    assert PATIENCE_SECONDS <= time.monotonic() - started < 20


def test_a_deadline_waits_for_the_end_of_what_must_not_be_left_half_done(interruption: Interruption) -> None:
    done = False
    with pytest.raises(DeadlinePassed), interruption.deadline(0.05):
        with interruption.held_back():
            time.sleep(0.2)
            done = True
        time.sleep(30)
    assert done


def test_no_signal_breaks_into_the_end(interruption: Interruption) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    interruption.end()
    os.kill(os.getpid(), signal.SIGINT)
    interruption.pause(0)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_step_that_takes_too_long_fails_by_its_name(steps: Steps) -> None:
    started = time.monotonic()
    with (
        pytest.raises(DemoFailed, match=r"'slow' failed: it was not done after 0\.1 seconds"),
        steps.step("slow", within_seconds=0.1),
    ):
        time.sleep(30)
    assert time.monotonic() - started < 20
    assert [(result.name, result.passed) for result in steps.results] == [("slow", False)]


def test_the_deadline_of_a_step_ends_with_it(steps: Steps) -> None:
    with steps.step("fast", within_seconds=5):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_signal_during_a_step_is_raised_after_it(steps: Steps) -> None:
    with pytest.raises(Stopped), steps.step("first", within_seconds=5):
        os.kill(os.getpid(), signal.SIGTERM)
    assert [(result.name, result.passed) for result in steps.results] == [("first", True)]


def test_any_error_is_the_failure_of_its_step_on_one_line(steps: Steps) -> None:
    with (
        pytest.raises(DemoFailed, match="ValueError: first second") as caught,
        steps.step("broken", within_seconds=5),
    ):
        raise ValueError("first\n second")
    assert caught.value.step == "broken"
