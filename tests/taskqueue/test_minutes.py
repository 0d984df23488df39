"""What workers count: nothing twice, nothing lost but by a kill, and percentiles close to the true ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import override

import psycopg
import pytest
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st

from taskqueue import store
from taskqueue.database import Connection, Database
from taskqueue.finishes import Finish, Written
from taskqueue.lifecycle import Event
from taskqueue.minute_writer import MinuteWriter
from taskqueue.minutes import OTHERS, Minutes, added, bucket_of, percentile
from taskqueue.models import QueueMinute
from taskqueue.outcomes import Ending
from taskqueue.records import Claim, SpanTotals
from tests.support.held import held_of, tries_of
from tests.support.sessions import sessions

_QUARTER = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=50), st.sampled_from([0.5, 0.95]))
def test_percentile_is_within_one_bucket_of_the_true_one(values: list[float], share: float) -> None:
    counts: list[int] = []
    for value in values:
        counts = added(counts, [0] * bucket_of(value) + [1])
    true = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    found = percentile(counts, share)
    assert found is not None
    assert true / 2**0.5 - 1 <= found <= max(true * 2**0.5, 1) + 1e-6


def test_percentile_of_nothing_is_none() -> None:
    assert percentile([], 0.5) is None
    assert percentile([0, 0], 0.95) is None


def test_longest_and_shortest_times_have_a_bucket() -> None:
    assert (bucket_of(0), bucket_of(-5), bucket_of(1), bucket_of(1e30)) == (0, 0, 1, 62)


def written(
    event: Event = Event.COMPLETE,
    *,
    task_type: str = "a",
    queue: str = "q",
    waited: float = 0.25,
    ran: float = 1.5,
    kept: bool = True,
    superseded: bool = False,
) -> Written:
    claim = Claim(
        id="t",
        task_type=task_type,
        payload=None,
        queue=queue,
        priority=0,
        retry_count=0,
        max_retries=None,
        attempt=1,
        lost_count=0,
        correlation_id="c",
        waited_seconds=waited,
    )
    held = held_of(claim)
    held.claimed_at = time.monotonic() - ran
    finish = Finish(held=held, ending=Ending(event=event), tries=lambda held: tries_of())
    return Written(finish=finish, kept=kept, superseded=superseded)


def offset_at(instant: datetime) -> float:
    """As if it were ten seconds later than ``instant`` now: what was counted a moment ago belongs to its minute."""
    return instant.timestamp() + 10 - time.monotonic()


def of_span(totals: list[SpanTotals], span: int) -> list[SpanTotals]:
    return [row for row in totals if row.span == span]


def test_each_ending_counts_as_what_became_of_the_task() -> None:
    minutes = Minutes()
    for event in (Event.COMPLETE, Event.COMPLETE, Event.FAIL, Event.SNOOZE, Event.EXHAUST, Event.DISCARD):
        minutes.count(written(event))
    minutes.count(written(Event.FAIL, superseded=True))
    (row,) = of_span(minutes.totals(offset_at(_QUARTER)), 1)
    assert (row.succeeded, row.retried, row.snoozed, row.dead, row.dead_lettered) == (2, 1, 1, 1, 2)
    assert row.waited_ms == 7 * 250
    assert sum(row.waits) == sum(row.runs) == 7
    assert (percentile(row.waits, 0.5) or 0) == pytest.approx(250, rel=0.4)
    assert (percentile(row.runs, 0.5) or 0) == pytest.approx(1500, rel=0.4)


def test_lost_claims_and_released_ones_do_not_count() -> None:
    minutes = Minutes()
    minutes.count(written(kept=False))
    minutes.count(written(Event.RELEASE))
    assert minutes.totals(offset_at(_QUARTER)) == []


def test_unconfirmed_totals_are_given_out_again_whole_and_confirmed_ones_only_when_they_change() -> None:
    minutes, offset = Minutes(), offset_at(_QUARTER)
    minutes.count(written())
    first = minutes.totals(offset)
    minutes.count(written())
    second = minutes.totals(offset)
    minutes.confirm()
    assert [[row.succeeded for row in of_span(rows, 1)] for rows in (first, second)] == [[1], [2]]
    assert minutes.totals(offset) == []
    minutes.count(written())
    assert [row.succeeded for row in minutes.totals(offset)] == [3, 3]


def test_next_minute_begins_anew_and_the_quarter_goes_on() -> None:
    minutes = Minutes()
    minutes.count(written())
    minutes.totals(offset_at(_QUARTER))
    minutes.confirm()
    minutes.count(written())
    later = minutes.totals(offset_at(_QUARTER + timedelta(minutes=1)))
    assert [(row.begins_at, row.succeeded) for row in of_span(later, 1)] == [(_QUARTER + timedelta(minutes=1), 1)]
    assert [(row.begins_at, row.succeeded) for row in of_span(later, 15)] == [(_QUARTER, 2)]


def test_clock_that_goes_back_does_not_overwrite_a_minute_that_is_over() -> None:
    minutes = Minutes()
    minutes.count(written())
    minutes.totals(offset_at(_QUARTER))
    minutes.confirm()
    minutes.totals(offset_at(_QUARTER + timedelta(minutes=2)))
    minutes.confirm()
    minutes.count(written())
    late = minutes.totals(offset_at(_QUARTER))
    assert [(row.begins_at, row.succeeded) for row in of_span(late, 1)] == [(_QUARTER + timedelta(minutes=1), 1)]


def test_ever_new_queues_end_in_one_row_for_the_others() -> None:
    minutes = Minutes()
    for number in range(250):
        minutes.count(written(queue=f"tenant {number}"))
    rows = of_span(minutes.totals(offset_at(_QUARTER)), 1)
    assert len(rows) == 201
    assert [(row.task_type, row.succeeded) for row in rows if row.queue == OTHERS] == [(OTHERS, 50)]


class _Away(Database):
    """Cannot be reached for as long as ``away`` says."""

    away = True

    @override
    def open(self, purpose: str) -> Connection:
        if self.away:
            raise psycopg.OperationalError("the server is away")
        return super().open(purpose)


@pytest.fixture
def connection(transactional_db: None) -> Iterator[Connection]:
    with sessions() as connect:
        yield connect()


def writer_of(minutes: Minutes, database: Database, worker_id: str = "w") -> MinuteWriter:
    return MinuteWriter(
        minutes,
        database=database,
        worker_id=worker_id,
        outage_seconds=60.0,
        on_failure=lambda part, error: pytest.fail(f"{part}: {error}"),
    )


@pytest.mark.django_db(transaction=True)
def test_workers_write_rows_of_their_own_and_an_outage_loses_none() -> None:
    database = _Away()
    minutes = Minutes()
    writer = writer_of(minutes, database)
    minutes.count(written())
    assert writer.look() < 1
    assert writer.look() < 1
    minutes.count(written(Event.FAIL))
    database.away = False
    assert writer.look() == 10
    other = Minutes()
    other.count(written())
    writer_of(other, database, "v").close()
    minutes.count(written())
    writer.close()
    rows = QueueMinute.objects.filter(span=15)
    assert rows.aggregate(n=Sum("succeeded"), m=Sum("retried")) == {"n": 3, "m": 1}
    assert set(rows.values_list("worker_id", flat=True)) == {"w", "v"}
    newest = QueueMinute.objects.filter(span=1).latest("begins_at")
    assert abs(datetime.now(UTC) - newest.begins_at) < timedelta(minutes=2)


def test_write_that_is_repeated_changes_nothing(connection: Connection) -> None:
    minutes = Minutes()
    for _ in range(3):
        minutes.count(written())
    totals = minutes.totals(offset_at(_QUARTER))
    for _ in range(3):
        store.count_minutes(connection, "w", totals)
    assert list(QueueMinute.objects.values_list("span", "succeeded").order_by("span")) == [(1, 3), (15, 3)]


def test_old_minutes_go_before_old_quarters_a_batch_at_a_time(connection: Connection) -> None:
    (minute,) = of_span(_one(), 1)
    now = datetime.now(UTC)
    ages = {1: (timedelta(days=1), timedelta(days=3)), 15: (timedelta(days=7), timedelta(days=9))}
    rows = [replace(minute, span=span, begins_at=now - age) for span, both in ages.items() for age in both]
    crowd = [replace(minute, begins_at=now - timedelta(days=4, seconds=n)) for n in range(2_500)]
    store.count_minutes(connection, "w", rows + crowd)
    store.forget_minutes(connection)
    assert QueueMinute.objects.count() == 2_504 - 2_000
    store.forget_minutes(connection)
    left = QueueMinute.objects.order_by("span").values_list("span", "begins_at")
    assert list(left) == [(1, now - timedelta(days=1)), (15, now - timedelta(days=7))]


def _one() -> list[SpanTotals]:
    minutes = Minutes()
    minutes.count(written())
    return minutes.totals(offset_at(_QUARTER))
