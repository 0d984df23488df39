"""What a hostile or careless INSERT may ask for: refused with the constraint's name, or harmless."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from taskqueue.models import Task

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("embargo_until", "infinity", "tasks_instants_in_calendar"),
        ("embargo_until", "-infinity", "tasks_instants_in_calendar"),
        ("embargo_until", "10000-01-01", "tasks_instants_in_calendar"),
        ("embargo_until", "0044-03-15 BC", "tasks_instants_in_calendar"),
        ("created_at", "infinity", "tasks_instants_in_calendar"),
        ("priority", 32_768, "out of range"),
        ("attempt", -1, "tasks_counts_not_negative"),
        ("retry_count", -1, "tasks_counts_not_negative"),
        ("lost_count", -1, "tasks_counts_not_negative"),
        ("max_retries", -1, "tasks_counts_not_negative"),
        ("status", "running", "tasks_lease_while_running"),
        ("status", "success", "tasks_finished_at_in_final_states"),
        ("status", "waiting", "tasks_status_declared"),
        ("status", None, "null value"),
        ("task_type", None, "null value"),
        ("embargo_until", None, "null value"),
        ("queue", None, "null value"),
        ("correlation_id", None, "null value"),
        ("payload", "{not json", "invalid input syntax for type json"),
        ("payload", '"\\u0000"', "unsupported Unicode escape sequence"),
    ],
)
def test_a_row_that_would_break_workers_or_pages_is_refused(column: str, value: Any, why: str) -> None:
    with pytest.raises(DatabaseError, match=why), transaction.atomic():
        _insert(**{column: value})


def test_two_pending_rows_with_one_dedupe_key_are_refused() -> None:
    _insert(dedupe_key="k")
    with pytest.raises(DatabaseError, match="tasks_one_pending_per_dedupe_key"), transaction.atomic():
        _insert(dedupe_key="k")
    _insert(dedupe_key=None)
    _insert(dedupe_key=None)


def test_ids_and_correlation_ids_that_the_database_makes_are_distinct_and_sort_by_time() -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO tasks (task_type) SELECT 'test.noop' FROM generate_series(1, 1000)")
    rows = list(Task.objects.values_list("id", "correlation_id"))

    assert len({id for id, _ in rows}) == len({correlation for _, correlation in rows}) == 1000
    assert all(id.startswith("task_") and len(id) == 37 for id, _ in rows)
    assert all(len(correlation) == 36 and correlation[14] == "7" for _, correlation in rows)
    later = Task.objects.create(task_type="test.noop")
    assert all(id[:17] <= later.id[:17] for id, _ in rows)


def _insert(**columns: Any) -> None:
    values = {"task_type": "test.noop", **columns}
    names = ", ".join(values)
    places = ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO tasks ({names}) VALUES ({places})", list(values.values()))  # noqa: S608
