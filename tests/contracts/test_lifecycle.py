"""One table of moves: the constraints, indexes and trigger in the database and the page in docs say what it says."""

from __future__ import annotations

import re
from itertools import product

import pytest
from django.db import connection

from taskqueue import lifecycle
from taskqueue.lifecycle import FINAL, MOVES, PAIRS, TERMINAL, Event, Mover, Status
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "lifecycle.md"
_STATUS = re.compile(rf"'({'|'.join(Status)})'")


def test_each_event_has_exactly_one_move() -> None:
    assert sorted(move.event for move in MOVES) == sorted(Event)


def test_terminal_states_are_success_and_dead_lettered() -> None:
    assert {Status.SUCCESS, Status.DEAD_LETTERED} == TERMINAL
    assert TERMINAL < FINAL


def test_every_state_can_be_reached_from_pending() -> None:
    reached = {Status.PENDING}
    for _ in Status:
        reached |= {target for source, target in PAIRS if source in reached}
    assert reached == set(Status)


def test_persons_never_move_what_a_worker_holds() -> None:
    assert [move.event for move in MOVES if move.by is Mover.PERSON and Status.RUNNING in move.sources] == []
    assert {source for move in MOVES if move.by is Mover.HOLDER for source in move.sources} == {Status.RUNNING}


@pytest.mark.django_db
def test_the_check_on_status_lists_every_state() -> None:
    assert _statuses(_constraint("tasks_status_declared")) == set(Status)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("constraint", "states"),
    [("tasks_finished_at_in_final_states", FINAL), ("tasks_lease_while_running", {Status.RUNNING})],
)
def test_checks_name_the_states_that_the_table_gives_them(constraint: str, states: set[Status]) -> None:
    assert _statuses(_constraint(constraint)) == states


@pytest.mark.django_db
def test_the_trigger_lists_every_change_of_status_and_no_other() -> None:
    (text,) = _rows("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname ~ '^pgtrigger_tasks_legal_move'")
    words = [Status(word) for word in _STATUS.findall(text)]
    pairs = list(zip(words[::2], words[1::2], strict=True))
    assert len(pairs) == len(PAIRS)
    assert set(pairs) == PAIRS


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("index", "states"),
    [
        ("tasks_claim", {source for move in MOVES if move.event is Event.CLAIM for source in move.sources}),
        ("tasks_pending", {Status.PENDING}),
        ("tasks_one_pending_per_dedupe_key", {Status.PENDING}),
        ("tasks_unfinished", set(Status) - {Status.PENDING, Status.SUCCESS}),
    ],
)
def test_partial_indexes_hold_the_states_they_are_for(index: str, states: set[Status]) -> None:
    (text,) = _rows("SELECT indexdef FROM pg_indexes WHERE indexname = %s", index)
    assert _statuses(text.partition(" WHERE ")[2]) == states


def test_the_page_shows_every_move_in_its_diagram_and_in_its_table() -> None:
    text = PAGE.read_text()
    arrows = set(re.findall(r"^    (\w+) --> (\w+): (\w+)$", text, flags=re.MULTILINE))
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) → (\w+) \| (\w+) \|", text, flags=re.MULTILINE)
    table = {(source, target, event) for event, sources, target, _ in rows for source in sources.split(", ")}
    moves = {(source.value, move.target.value, move.event.value) for move in MOVES for source in move.sources}
    assert arrows == moves
    assert table == moves
    assert lifecycle.diagram() in text


@pytest.mark.parametrize(("status", "event"), list(product(Status, Event)))
def test_can_transition_allows_what_the_table_lists(status: Status, event: Event) -> None:
    decision = lifecycle.can_transition(status, event)
    targets = [move.target for move in MOVES if move.event is event and status in move.sources]
    assert decision.allowed == bool(targets)
    assert decision.target == (targets[0] if targets else None)
    if not targets:
        expected = "terminal_state" if status in TERMINAL else "invalid_transition"
        assert decision.refusal == expected


def _constraint(name: str) -> str:
    (text,) = _rows("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", name)
    return text


def _statuses(text: str) -> set[Status]:
    return {Status(word) for word in _STATUS.findall(text)}


def _rows(statement: str, *parameters: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [row[0] for row in cursor.fetchall()]
