"""Rows that other programs may write: run like any other where that can be, and never the end of a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskqueue import store
from taskqueue.database import Connection, Database
from taskqueue.models import Task
from taskqueue.records import Completion, Room, Serving
from tests.support.tasks_in_state import task_in

pytestmark = pytest.mark.django_db(transaction=True)

_ROOM = Room(slots=10, window=10, last_chance_free=True)
_LARGEST_INT = 2_147_483_647


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(Database(name="odd").open("test")) as connection:
        yield connection


def test_rows_whose_counts_cannot_grow_keep_no_worker_from_the_others(connection: Connection) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    task_in("due", attempt=_LARGEST_INT)
    task_in("running", worker_id="x", lease_until=long_ago, attempt=_LARGEST_INT)
    loop = task_in("running", worker_id="x", lease_until=long_ago, lost_count=_LARGEST_INT)
    due = task_in("due")
    lost = task_in("running", worker_id="x", lease_until=long_ago)
    serving = Serving(task_types=("test.noop",), queues=None, worker_id="w", lease_seconds=60.0)

    assert [found.id for found in store.discard_crash_loops(connection, "w")] == [loop.id]
    assert [claim.id for claim in store.reclaim(connection, serving, _ROOM)] == [lost.id]
    assert [claim.id for claim in store.claim(connection, serving, _ROOM)] == [due.id]


@pytest.mark.parametrize(
    "values",
    [
        {"id": ""},
        {"id": "with\nnew lines\tand ' quotes \" and % signs"},
        {"id": "x" * 10_000},
        {"id": "\N{PILE OF POO}"},
        {"queue": ""},
        {"queue": 'it\'s \\ "quoted"'},
        {"priority": -32_768},
        {"priority": 32_767},
        {"max_retries": _LARGEST_INT},
        {"retry_count": _LARGEST_INT},
        {"lost_count": _LARGEST_INT},
        {"embargo_until": "0001-01-02 00:00:00+00"},
        {"correlation_id": ""},
        {"correlation_id": "a\nb" * 1000},
        {"payload": {"text": "x" * 5_000_000}},
        {"payload": {"number": 10**300}},
        {"error_code": "x" * 1_000_000, "message": "x" * 1_000_000},
    ],
    ids=lambda values: f"{next(iter(values))}-{str(next(iter(values.values())))[:12]!r}",
)
def test_an_odd_row_is_claimed_and_completed(connection: Connection, values: dict[str, Any]) -> None:
    Task.objects.create(task_type="odd", **values)
    serving = Serving(task_types=("odd",), queues=None, worker_id="w", lease_seconds=60.0)

    (claim,) = store.claim(connection, serving, _ROOM)
    kept = store.complete(connection, [Completion(id=claim.id, attempt=claim.attempt, result=None)])

    assert kept == {(claim.id, 1)}
    if "payload" in values:
        assert claim.payload is not None
        assert json.loads(claim.payload) == values["payload"]
