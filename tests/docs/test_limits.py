"""The table of limits on the page about enqueueing: what it allows is stored, what lies beyond is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from taskqueue.enqueueing import enqueue
from taskqueue.errors import InvalidTask
from taskqueue.models import Task
from tests.docs.pages import ROOT

_CENTURY = 3_153_600_000
_TYPE = "limits.of"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_type", "t" * 200),
        ("queue", "q" * 200),
        ("dedupe_key", "k" * 1000),
        ("correlation_id", "c" * 200),
        ("priority", -32_768),
        ("priority", 32_767),
        ("max_retries", 0),
        ("max_retries", 2_147_483_647),
        ("delay", _CENTURY),
        ("run_at", datetime(1970, 1, 1, tzinfo=UTC)),
        ("run_at", datetime(8999, 12, 31, tzinfo=UTC)),
        ("payload", {"text": "é\u2028\x1b", "number": 10**20, "empty": {}, "nothing": None}),
    ],
)
def test_what_the_table_allows_is_stored(field: str, value: Any) -> None:
    task = _enqueue(field, value)
    assert Task.objects.filter(pk=task.pk).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_type", ""),
        ("task_type", "t" * 201),
        ("task_type", "a\x00b"),
        ("task_type", "a\ud800"),
        ("queue", ""),
        ("queue", "q" * 201),
        ("queue", "a\nb"),
        ("dedupe_key", "k" * 1001),
        ("dedupe_key", "a\ud800"),
        ("correlation_id", "c" * 201),
        ("priority", 32_768),
        ("priority", -32_769),
        ("max_retries", -1),
        ("max_retries", 2_147_483_648),
        ("delay", -1),
        ("delay", float("nan")),
        ("delay", _CENTURY + 1),
        ("run_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - the fault under test
        ("run_at", datetime(1969, 12, 31, tzinfo=UTC)),
        ("run_at", datetime(9000, 1, 1, tzinfo=UTC)),
        ("payload", {"amount": float("nan")}),
        ("payload", {"text": "\x00"}),
        ("payload", {"text": "\ud800"}),
    ],
)
def test_what_lies_beyond_is_refused_and_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidTask) as refusal:
        _enqueue(field, value)
    assert [problem.partition(":")[0] for problem in refusal.value.problems] == [field]
    assert not Task.objects.exists()


def test_every_field_has_its_line_in_the_table() -> None:
    page = (ROOT / "docs" / "enqueueing.md").read_text()
    fields = (
        "task_type",
        "payload",
        "queue",
        "priority",
        "max_retries",
        "dedupe_key",
        "correlation_id",
        "delay",
        "run_at",
    )
    assert [field for field in fields if f"\n| `{field}` |" not in page] == []


def _enqueue(field: str, value: Any) -> Task:
    return enqueue(**{"task_type": _TYPE, field: value})
