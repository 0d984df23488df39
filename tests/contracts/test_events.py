"""The catalogue of events is what the product says: each is emitted, with exactly its fields and no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from experiments import events as experiment_events
from taskqueue import events, telemetry
from taskqueue.events import EventType
from taskqueue.lifecycle import Event
from taskqueue.operations import enqueue
from taskqueue.outcomes import Ending
from taskqueue.reports import report_written
from tests.contracts import emitters, experiment_emitters
from tests.contracts.emitters import SECRET
from tests.support.held import failed, finish_of, finishes_of
from tests.support.sessions import Connect, claim, sessions
from tests.support.tasks_in_state import task_in

CATALOGUE = {**events.CATALOGUE, **experiment_events.CATALOGUE}
EMITTERS = {**emitters.EMITTERS, **experiment_emitters.EMITTERS}

pytestmark = pytest.mark.django_db(transaction=True)

type Said = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def said() -> Iterator[Said]:
    heard: Said = []

    def hear(sender: EventType, data: dict[str, Any], **_: object) -> None:
        heard.append((sender.name, data))

    for event in CATALOGUE.values():
        event.signal.connect(hear)
    yield heard
    for event in CATALOGUE.values():
        event.signal.disconnect(hear)


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_event_is_emitted_with_exactly_its_fields(name: str, said: Said) -> None:
    with sessions() as connect:
        EMITTERS[name](connect)

    told = [data for heard, data in said if heard == name]
    assert len(told) == 1
    assert set(told[0]) == set(CATALOGUE[name].keys)
    line = json.dumps(told[0])
    assert SECRET not in line


def test_no_emitter_is_left_of_an_event_that_is_gone() -> None:
    assert sorted(EMITTERS) == sorted(CATALOGUE)


def test_an_event_with_a_field_too_many_or_too_few_is_an_error_where_it_is_emitted() -> None:
    with pytest.raises(TypeError, match=r"taskqueue.database.lost takes"):
        telemetry.emit(events.DATABASE_LOST, worker_id="w", part="tasks")
    with pytest.raises(TypeError, match=r"taskqueue.database.lost takes"):
        telemetry.emit(events.DATABASE_LOST, worker_id="w", part="tasks", reason="", payload={})


def test_a_subscriber_that_raises_keeps_no_other_from_hearing(said: Said) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("a metrics server is away")

    events.DATABASE_BACK.signal.connect(broken)
    try:
        telemetry.emit(events.DATABASE_BACK, worker_id="w", part="tasks", outage_seconds=1.0)
    finally:
        events.DATABASE_BACK.signal.disconnect(broken)

    assert [name for name, _ in said] == ["taskqueue.database.back"]


def _superseded(connect: Connect, ending: Ending) -> None:
    task_in("due", dedupe_key="k")
    connection = connect()
    (claimed,) = claim(connection)
    enqueue("test.noop", dedupe_key="k")
    (written,) = finishes_of(finish_of(claimed, ending)).write(connection)
    report_written(written, worker_id="worker-a")


@pytest.mark.parametrize("ending", [failed(), Ending(event=Event.RELEASE), Ending(event=Event.SNOOZE)])
def test_a_superseded_task_is_told_as_ended_for_good(said: Said, ending: Ending) -> None:
    with sessions() as connect:
        _superseded(connect, ending)

    ((name, data),) = said
    assert (name, data["move"]) == ("worker.exhausted", "superseded")
