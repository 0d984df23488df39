"""Lists at a size at which a wrong plan shows: no scan of the table, no sort of it, few pages read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from pytest_django import DjangoDbBlocker

from taskqueue.admin.bounded import REACHABLE, BoundedPaginator, steady_plans
from taskqueue.admin.known_lanes import known_lanes
from taskqueue.admin.selection import Selection
from taskqueue.models import Task

FINISHED = 200_000
WAITING = 20_000
LIST = "/admin/taskqueue/task/"

# The many finished tasks first, so that what is looked for lies at the far end of the table: where a scan that hopes
# for an early match is at its slowest.
_FILL = f"""
INSERT INTO tasks (id, task_type, payload, status, attempt, finished_at, correlation_id)
SELECT 'task_' || lpad(n::text, 10, '0'), 'bulk.done', '{{}}', 'success', 1, now(), 'c' || n
FROM generate_series(1, {FINISHED}) n;
INSERT INTO tasks (id, task_type, payload, embargo_until, correlation_id, dedupe_key)
SELECT 'task_' || lpad(n::text, 10, '0'), 'bulk.later', '{{}}', now() + interval '1 day', 'c' || n, 'k' || n
FROM generate_series({FINISHED} + 1, {FINISHED + WAITING}) n;
INSERT INTO tasks (id, task_type, payload, status, attempt, finished_at, correlation_id)
SELECT 'task_' || lpad(n::text, 10, '0'), 'rare', '{{}}', 'dead', 1, now(), 'c' || n
FROM generate_series({FINISHED + WAITING} + 1, {FINISHED + WAITING} + 60) n;
"""  # noqa: S608 - numbers of this file


@pytest.fixture(scope="module")
def many_tasks(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Committed once for all tests here, and taken away again."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(_FILL)
        cursor.execute("VACUUM ANALYZE tasks")
        yield
        cursor.execute("TRUNCATE tasks CASCADE")
        cursor.execute("VACUUM ANALYZE tasks")


@pytest.fixture
def staff(many_tasks: None, db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def explained(queryset: QuerySet[Any]) -> dict[str, Any]:
    with steady_plans():
        text = queryset.explain(format="json", analyze=True, buffers=True)
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


SELECTIONS = {
    "all": (Selection(), 60),
    "dead": (Selection(state="dead"), 60),
    "running": (Selection(state="running"), 60),
    "pending": (Selection(state="pending"), 60),
    "rare pending type": (Selection(state="pending", task_type="none.such"), 60),
    "dead of a type": (Selection(state="dead", task_type="rare"), 100),
    "exact id": (Selection(search="task_0000000007"), 60),
    "prefix of all": (Selection(search="task_"), 60),
    "correlation id": (Selection(search="c199999"), 60),
    "dedupe key": (Selection(search=f"k{FINISHED + 5}"), 60),
    "behind a task": (Selection(before="task_0000150000"), 60),
    "dead behind a task": (Selection(state="dead", before="task_0000150000"), 60),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_first_page_reads_an_index_and_few_pages(many_tasks: None, db: None, name: str) -> None:
    selection, most_buffers = SELECTIONS[name]
    plan = explained(selection.shown().order_by("-id")[:50])
    scans = [node["Node Type"] for node in nodes(plan)]
    assert "Seq Scan" not in scans, scans
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= most_buffers, plan


@pytest.mark.parametrize(
    "selection",
    [Selection(task_type="rare"), Selection(state="success"), Selection(queue="none"), Selection(state="retrying")],
)
def test_what_no_index_serves_is_looked_for_in_the_window_only(
    many_tasks: None, db: None, monkeypatch: pytest.MonkeyPatch, selection: Selection
) -> None:
    monkeypatch.setattr("taskqueue.admin.selection.WINDOW", 5_000)
    fresh = Selection(state=selection.state, task_type=selection.task_type, queue=selection.queue)
    plan = explained(fresh.shown().order_by("-id")[:50])
    assert "Seq Scan" not in [node["Node Type"] for node in nodes(plan)]
    looked_at = [node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in nodes(plan)]
    assert max(looked_at) <= 5_000


def test_whole_table_is_estimated_and_never_counted(many_tasks: None, db: None) -> None:
    paginator = BoundedPaginator(Selection().shown().order_by("-id"), 50)
    assert paginator.label == f"about {round(FINISHED + WAITING + 60, -3):,}"
    assert (paginator.count, paginator.num_pages) == (REACHABLE, REACHABLE // 50)


def test_filtered_count_stops_at_its_cap(many_tasks: None, db: None) -> None:
    paginator = BoundedPaginator(Selection(state="pending").shown().order_by("-id"), 50)
    assert (paginator.label, paginator.count) == (f"more than {REACHABLE:,}", REACHABLE)


def test_types_and_queues_are_found_by_probes(many_tasks: None, db: None) -> None:
    with steady_plans():
        begun = time.perf_counter()
        lanes = known_lanes()
    assert time.perf_counter() - begun < 0.1
    assert "bulk.later" in lanes.task_types


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?p=200",
        "?state=dead",
        "?state=success",
        "?state=success&p=200",
        "?type=rare",
        "?state=pending&p=200",
        "?q=task_",
        "?q=c7",
    ],
)
def test_page_answers_quickly(staff: Client, query: str) -> None:
    staff.get(LIST)
    begun = time.process_time()
    page = staff.get(LIST + query)
    assert page.status_code == 200
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("state", ["dead", "pending"])
def test_move_of_all_that_match_walks_one_index(many_tasks: None, db: None, state: str) -> None:
    """As ``operations`` reads a selection: chunks of ids in their order, with the planner's own choice of plan."""
    tasks = Selection(state=state).tasks().order_by("id").filter(id__gt="").values_list("id", flat=True)[:5_000]
    plan = json.loads(tasks.explain(format="json"))[0]["Plan"]
    used = {node.get("Index Name") for node in nodes(plan)} - {None}
    assert used == {"tasks_unfinished" if state == "dead" else "tasks_pending"}


def test_task_table_is_as_the_tests_need_it(many_tasks: None, db: None) -> None:
    assert Task.objects.count() == FINISHED + WAITING + 60
