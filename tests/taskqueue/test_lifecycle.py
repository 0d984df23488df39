"""How a task's state is shown, and what may be asked about states and moves that do not exist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from taskqueue.lifecycle import Event, Mover, Refusal, Status, Tone, can_transition, events_for, state_view

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


@dataclass(kw_only=True)
class _Task:
    status: str
    retry_count: int = 0
    embargo_until: datetime = NOW


@pytest.mark.parametrize(
    ("task", "label", "tone", "moves"),
    [
        (_Task(status="pending"), "pending", Tone.QUIET, {"dead_letter", "run_now"}),
        (
            _Task(status="pending", embargo_until=NOW + timedelta(microseconds=1)),
            "scheduled",
            Tone.QUIET,
            {"dead_letter", "run_now"},
        ),
        (_Task(status="pending", retry_count=1), "retrying", Tone.WARNING, {"dead_letter", "run_now"}),
        (
            _Task(status="pending", retry_count=1, embargo_until=NOW + timedelta(hours=1)),
            "retrying",
            Tone.WARNING,
            {"dead_letter", "run_now"},
        ),
        (_Task(status="running"), "running", Tone.ACTIVE, set()),
        (_Task(status="success", retry_count=3), "success", Tone.GOOD, set()),
        (_Task(status="dead"), "dead", Tone.BAD, {"dead_letter", "retry"}),
        (_Task(status="dead_lettered"), "dead-lettered", Tone.BAD, set()),
        (_Task(status="paused"), "paused", Tone.WARNING, set()),
    ],
)
def test_a_state_is_shown_with_its_label_tone_and_moves(task: _Task, label: str, tone: Tone, moves: set[str]) -> None:
    view = state_view(task, NOW)
    assert (view.label, view.tone, set(view.events)) == (label, tone, moves)


@pytest.mark.parametrize("status", ["paused", "", "PENDING", None, 7])
def test_a_state_that_does_not_exist_is_told_as_such(status: str) -> None:
    decision = can_transition(status, "retry")
    assert (decision.allowed, decision.target, decision.refusal) == (False, None, Refusal.UNKNOWN_STATE)


@pytest.mark.parametrize("event", ["cancel", "", "RETRY", None])
def test_a_move_that_does_not_exist_is_told_as_such(event: str) -> None:
    assert can_transition("dead", event).refusal is Refusal.UNKNOWN_EVENT


def test_refusals_keep_their_codes() -> None:
    assert {refusal.value for refusal in Refusal} >= {
        "terminal_state",
        "invalid_transition",
        "unknown_state",
        "unknown_event",
        "not_found",
        "claim_lost",
    }


def test_what_a_holder_may_do_is_what_ends_or_renews_its_claim() -> None:
    assert set(events_for(Status.RUNNING, Mover.HOLDER)) == {
        Event.RENEW,
        Event.COMPLETE,
        Event.FAIL,
        Event.SNOOZE,
        Event.RELEASE,
        Event.EXHAUST,
        Event.DISCARD,
    }
