"""Each invariant of the queue broken in turn: exactly that finding, and its repair mends it or a person is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskqueue.models import Event, QueueControl, Task, TaskTransition, Webhook, Worker
from taskqueue.reconciliation.queue_checks import CHECKS
from taskqueue.reconciliation.queue_repairs import NOBODY
from tests.support.damage import damage, drop, findings, repair
from tests.support.tasks_in_state import STATES, task_in

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)


def _over_budget() -> None:
    damage("UPDATE tasks SET retry_count = 4, max_retries = 3 WHERE id = 'due'")


def _fence_at_its_end() -> None:
    damage("UPDATE tasks SET attempt = 2147483647 WHERE id = 'due'")


def _negative_count() -> None:
    drop("tasks", "tasks_counts_not_negative")
    damage("UPDATE tasks SET retry_count = -1 WHERE id = 'due'")


def _running_over_budget() -> None:
    damage("UPDATE tasks SET retry_count = 4, max_retries = 3 WHERE id = 'running'")


def _pending_with_lease() -> None:
    drop("tasks", "tasks_lease_while_running")
    damage("UPDATE tasks SET lease_until = now(), worker_id = 'w' WHERE id = 'due'")


def _running_without_lease() -> None:
    drop("tasks", "tasks_lease_while_running")
    damage("UPDATE tasks SET lease_until = NULL, worker_id = NULL WHERE id = 'running'")


def _final_without_end() -> None:
    drop("tasks", "tasks_finished_at_in_final_states")
    damage("UPDATE tasks SET finished_at = NULL WHERE id = 'success'")


def _pending_with_end() -> None:
    drop("tasks", "tasks_finished_at_in_final_states")
    damage("UPDATE tasks SET finished_at = now() WHERE id = 'due'")


def _undeclared_status() -> None:
    drop("tasks", "tasks_status_declared")
    damage("UPDATE tasks SET status = 'paused' WHERE id = 'due'")


def _two_of_one_key() -> None:
    drop("tasks", "tasks_one_pending_per_dedupe_key")
    Task.objects.filter(id__in=["due", "retrying"]).update(dedupe_key="k")
    damage("UPDATE tasks SET created_at = created_at - interval '1 min' WHERE id = 'due'")


def _nobody_serves() -> None:
    Task.objects.filter(id="due").update(embargo_until=NOW - timedelta(hours=2))


def _lease_long_gone() -> None:
    Task.objects.filter(id="running").update(lease_until=NOW - timedelta(minutes=20))


def _moved_past_the_lifecycle() -> None:
    TaskTransition.objects.create(
        task_id="dead", from_status="success", to_status="pending", event="retry", actor="psql"
    )


def _webhook_disabled() -> None:
    Webhook.objects.create(
        id="wh_1", url="https://example.com", disabled_at=NOW - timedelta(hours=3), disabled_reason="410"
    )
    _deliver_to("wh_1")


def _webhook_gone() -> None:
    _deliver_to("wh_gone")


def _deliver_to(webhook_id: str) -> None:
    payload = {"url": "https://example.com", "webhook_id": webhook_id}
    task_in("due", id="hook", task_type="webhook.outbound", payload=payload, embargo_until=NOW - timedelta(minutes=61))
    Worker.objects.create(id="w", host="h", pid=1, version="1", task_types=["webhook.outbound"])


DAMAGES: list[tuple[str, dict[str, Any], Callable[[], None], bool]] = [
    ("tasks.budget", {"id": "due"}, _over_budget, True),
    ("tasks.budget", {"id": "due"}, _fence_at_its_end, True),
    ("tasks.budget", {"id": "due"}, _negative_count, True),
    ("tasks.budget", {"id": "running"}, _running_over_budget, False),
    ("tasks.state", {"id": "due"}, _pending_with_lease, True),
    ("tasks.state", {"id": "running"}, _running_without_lease, True),
    ("tasks.state", {"id": "success"}, _final_without_end, True),
    ("tasks.state", {"id": "due"}, _pending_with_end, True),
    ("tasks.state", {"id": "due"}, _undeclared_status, False),
    ("tasks.dedupe", {"id": "due"}, _two_of_one_key, True),
    ("tasks.progress", {"task_type": "test.noop", "queue": "default"}, _nobody_serves, False),
    ("tasks.lost", {"id": "running"}, _lease_long_gone, False),
    ("tasks.history", {}, _moved_past_the_lifecycle, False),
    ("webhooks.settled", {"id": "hook"}, _webhook_disabled, True),
    ("webhooks.settled", {"id": "hook"}, _webhook_gone, True),
]


@pytest.fixture(autouse=True)
def _healthy() -> None:
    for state in STATES:
        task_in(state, id=state)


def test_tasks_in_every_state_have_no_finding() -> None:
    assert findings() == ()


@pytest.mark.parametrize(("rule", "key", "broken", "is_mended"), DAMAGES, ids=[each[2].__name__ for each in DAMAGES])
def test_a_broken_invariant_is_found_alone_and_mended_or_left_to_a_person(
    rule: str, key: dict[str, Any], broken: Callable[[], None], is_mended: bool
) -> None:
    broken()

    (found,) = findings()

    assert found.rule == rule
    assert key.items() <= found.subject.items()
    assert found.guidance
    assert (found.repair is not None) == is_mended
    if is_mended:
        (applied,) = repair(found)
        assert applied.done, applied
        assert findings() == ()
        assert TaskTransition.objects.count() + Event.objects.filter(type="reconciliation.repaired").count() == 1


def test_every_rule_of_the_queue_is_broken_by_some_damage() -> None:
    assert {rule for rule, *_ in DAMAGES} == {rule.name for check in CHECKS for rule in check.rules}


def test_a_repaired_task_without_a_lease_is_one_whose_lease_ran_out() -> None:
    _running_without_lease()

    repair(*findings())

    task = Task.objects.get(id="running")
    assert (task.status, task.worker_id) == ("running", NOBODY)
    assert task.lease_until is not None


def test_the_newest_task_of_a_dedupe_key_is_kept() -> None:
    _two_of_one_key()

    repair(*findings())

    assert Task.objects.get(id="due").status == "dead_lettered"
    assert Task.objects.get(id="retrying").status == "pending"
    move = TaskTransition.objects.get(task_id="due")
    assert (move.event, move.actor, move.reason) == ("dead_letter", "ann", "reconciliation rec_1: tasks.dedupe")


@pytest.mark.parametrize(
    "served",
    [
        lambda: Worker.objects.create(id="w", host="h", pid=1, version="1", task_types=["test.noop"]),
        lambda: QueueControl.objects.create(kind="queue", name="default", paused_by="ann"),
        lambda: QueueControl.objects.create(kind="task_type", name="test.noop", paused_by="ann"),
    ],
)
def test_what_a_live_worker_serves_or_a_person_paused_is_not_called_unserved(served: Callable[[], object]) -> None:
    _nobody_serves()
    served()
    assert findings() == ()


@pytest.mark.parametrize(
    "values",
    [
        {"beat_at": NOW - timedelta(minutes=5)},
        {"stopped_at": NOW},
        {"task_types": ["other"]},
        {"queues": ["mail"]},
    ],
)
def test_a_worker_that_is_gone_or_serves_something_else_serves_nobody(values: dict[str, Any]) -> None:
    _nobody_serves()
    Worker.objects.create(**{"id": "w", "host": "h", "pid": 1, "version": "1", "task_types": ["test.noop"], **values})
    assert [found.rule for found in findings()] == ["tasks.progress"]


def test_a_secret_in_a_row_is_not_in_its_finding() -> None:
    _two_of_one_key()
    Task.objects.filter(id__in=["due", "retrying"]).update(dedupe_key="Authorization: Bearer abcdef123456")
    (found,) = findings()
    assert "abcdef123456" not in repr(found)
