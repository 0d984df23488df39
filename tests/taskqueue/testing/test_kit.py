"""Modes, captured events, factories, and the worker that runs beside a test."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import TestCase

from taskqueue import operations
from taskqueue.handlers import Registry, TaskContext, register_handler
from taskqueue.lifecycle import Status
from taskqueue.models import Task, TaskAttempt, Worker
from taskqueue.operations import enqueue
from taskqueue.retry import RetryPolicy
from taskqueue.testing import (
    CapturedEvents,
    RunningWorker,
    capture_events,
    drain_due,
    immediate,
    make_task,
    make_webhook,
    manual,
    running_worker,
)
from tests.support import django_tasks

pytest_plugins = ["taskqueue.testing.pytest_plugin"]
_SECONDS = 20.0


@pytest.fixture
def handlers() -> Registry:
    return Registry()


class WithDjangosTestCase(TestCase):
    def test_immediate_tasks_run_when_the_callbacks_do(self) -> None:
        with immediate(), self.captureOnCommitCallbacks(execute=True) as callbacks:
            result = django_tasks.add.enqueue(1, 2)
            self.assertEqual(Task.objects.get().status, "pending")

        self.assertEqual(len(callbacks), 1)
        result.refresh()
        self.assertEqual(result.return_value, 3)

    @immediate()
    def test_manual_takes_immediate_back(self) -> None:
        with manual(), self.captureOnCommitCallbacks(execute=True):
            django_tasks.add.enqueue(1, 2)
        self.assertEqual(Task.objects.get().status, "pending")
        self.assertEqual(drain_due().succeeded, 1)


def test_a_mode_leaves_the_other_settings_as_they_are() -> None:
    before = dict(settings.TASKQUEUE)
    with immediate():
        assert {**before, "MODE": "immediate"} == settings.TASKQUEUE
    assert before == settings.TASKQUEUE


@pytest.mark.django_db
def test_events_are_heard_within_the_block_only(handlers: Registry) -> None:
    register_handler("test.run", lambda payload: None, into=handlers)
    task = enqueue("test.run", handlers=handlers)
    with capture_events() as heard:
        drain_due(handlers=handlers)
    enqueue("test.run", handlers=handlers)
    drain_due(handlers=handlers)

    assert heard.names == ["taskqueue.task.claimed", "worker.run"]
    (run,) = heard.named("worker.run")
    assert run["task_id"] == task.id
    with pytest.raises(ValueError, match=r"worker\.ran"):
        heard.named("worker.ran")


@pytest.mark.django_db
@pytest.mark.parametrize("status", list(Status))
def test_tasks_of_any_state_satisfy_the_table_and_move_on_as_real_ones(status: Status) -> None:
    task = make_task(status=status, queue="mail")

    assert (task.status, task.queue, task.task_type) == (status, "mail", "test.task")
    report = operations.retry(Task.objects.all(), actor="ann")
    assert report.moved == (status is Status.DEAD)
    assert TaskAttempt.objects.count() == (status is Status.DEAD)


@pytest.mark.django_db
def test_a_task_between_two_tries_has_its_failed_attempts() -> None:
    task = make_task("mail.send", {"to": "ann"}, retry_count=2)

    assert (task.attempt, task.attempts.count()) == (2, 2)
    with pytest.raises(ValueError, match="not a valid Status"):
        make_task(status="done")


@pytest.mark.django_db
def test_a_webhook_is_as_the_database_made_it() -> None:
    assert make_webhook(name="orders").direction == "outbound"


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_runs_what_is_committed_while_it_runs(handlers: Registry) -> None:
    names: set[str] = set()

    def run(payload: int, context: TaskContext) -> int:
        names.add(threading.current_thread().name)
        return Task.objects.filter(id=context.id, status="running").count() + payload

    register_handler("test.run", run, into=handlers)

    with running_worker(handlers=handlers, slots=2) as worker:
        tasks = [enqueue("test.run", n, handlers=handlers) for n in range(20)]
        assert worker.wait_for(tasks[-1].id, timeout=_SECONDS).result == 20
        worker.wait_until_idle(timeout=_SECONDS)
        assert Task.objects.filter(status="success").count() == 20
        enqueue("test.run", 1, handlers=handlers)
        worker.wait_until_idle(timeout=_SECONDS)
        assert Task.objects.filter(status="success").count() == 21

    assert threading.current_thread().name not in names
    assert Worker.objects.get(id=worker.worker_id).stopped_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_failure_is_retried_by_the_worker(handlers: Registry) -> None:
    def fail_once(payload: Any, context: TaskContext) -> int:
        if context.retry_count == 0:
            raise ValueError
        return context.attempt

    register_handler("test.fail", fail_once, retry=RetryPolicy(base_seconds=0), into=handlers)

    with running_worker(handlers=handlers) as worker:
        task = worker.wait_for(enqueue("test.fail", handlers=handlers).id, timeout=_SECONDS)

    assert (task.status, task.result) == ("success", 2)


@pytest.mark.django_db(transaction=True)
def test_waits_end_in_time(handlers: Registry) -> None:
    go_on = threading.Event()
    register_handler("test.wait", lambda payload: go_on.wait(_SECONDS), into=handlers)

    with running_worker(handlers=handlers) as worker:
        task = enqueue("test.wait", handlers=handlers)
        with pytest.raises(AssertionError, match="is still"):
            worker.wait_for(task.id, timeout=0.3)
        with pytest.raises(AssertionError, match="busy"):
            worker.wait_until_idle(timeout=0.1)
        go_on.set()


@pytest.mark.django_db
def test_a_worker_in_a_transaction_is_refused_with_the_way_out() -> None:
    assert connection.in_atomic_block
    with pytest.raises(RuntimeError, match="TransactionTestCase"), running_worker():
        pass


def test_the_fixture_is_a_worker_of_all_registered_types(
    task_worker: RunningWorker, task_events: CapturedEvents
) -> None:
    result = django_tasks.add_async.enqueue(3, 4)

    assert task_worker.wait_for(result.id, timeout=_SECONDS).status == "success"
    assert task_events.named("worker.run")[0]["worker_id"] == task_worker.worker_id
    result.refresh()
    assert result.worker_ids == [task_worker.worker_id]


def test_the_fixture_of_immediate_tasks(immediate_tasks: None, transactional_db: None) -> None:
    result: Any = django_tasks.add.enqueue(3, 4)

    assert result.return_value == 7


def test_the_kit_needs_no_pytest() -> None:
    program = "import django, sys; django.setup(); import taskqueue.testing; assert 'pytest' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
