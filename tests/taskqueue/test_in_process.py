"""Tasks run here and now: with the worker's guards, in a caller's transaction and without one."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from taskqueue import events
from taskqueue.errors import GiveUp, Snooze
from taskqueue.handlers import Registry, TaskContext, register_handler
from taskqueue.in_process import DrainSummary, drain_due, process
from taskqueue.models import QueueControl, Task, TaskAttempt, Webhook
from taskqueue.operations import NewTask, enqueue, enqueue_many
from taskqueue.retry import RetryPolicy

_SECONDS = 30.0


@pytest.fixture
def handlers() -> Registry:
    return Registry()


@pytest.fixture(
    params=[
        pytest.param("in a transaction", marks=pytest.mark.django_db),
        pytest.param("without one", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def either(request: pytest.FixtureRequest, db: None) -> None:
    assert connection.in_atomic_block == (request.param == "in a transaction")


@pytest.mark.usefixtures("either")
class TestEitherWay:
    def test_every_ending_is_counted_and_written(self, handlers: Registry) -> None:
        def run(payload: str) -> str:
            match payload:
                case "fail" | "exhaust":
                    raise ValueError("no such order")
                case "give up":
                    raise GiveUp("no_such_order")
                case "snooze":
                    raise Snooze(60)
            return payload

        register_handler("test.run", run, into=handlers)
        for payload in ("good", "fail", "exhaust", "give up", "snooze"):
            enqueue("test.run", payload, max_retries=0 if payload == "exhaust" else None, handlers=handlers)

        summary = drain_due(handlers=handlers)

        assert summary == DrainSummary(ran=5, succeeded=1, retried=2, dead=1, dead_lettered=1)
        states = dict(Task.objects.values_list("payload", "status"))
        assert states == {
            "good": "success",
            "fail": "pending",
            "exhaust": "dead",
            "give up": "dead_lettered",
            "snooze": "pending",
        }
        assert list(TaskAttempt.objects.order_by("id").values_list("outcome", "error_class")) == [
            ("failed", "builtins.ValueError"),
            ("failed", "builtins.ValueError"),
            ("discarded", "taskqueue.errors.GiveUp"),
            ("snoozed", None),
        ]

    def test_an_async_handler_uses_the_callers_connection(self, handlers: Registry) -> None:
        async def count(payload: Any) -> int:
            return await Task.objects.acount()

        register_handler("test.count", count, into=handlers)
        enqueue("test.count", handlers=handlers)

        assert drain_due(handlers=handlers).succeeded == 1
        assert Task.objects.get().result == 1

    def test_a_refused_statement_of_a_handler_leaves_the_caller_unharmed(self, handlers: Registry) -> None:
        def break_it(payload: Any) -> None:
            Webhook.objects.create(url="https://example.com", direction="sideways")

        register_handler("test.break", break_it, into=handlers)
        task = enqueue("test.break", handlers=handlers)

        assert drain_due(handlers=handlers).retried == 1
        task.refresh_from_db()
        assert (task.status, task.retry_count) == ("pending", 1)
        assert TaskAttempt.objects.get().error_class == "django.db.utils.IntegrityError"

    def test_what_a_handler_wrote_before_it_raised_stays_as_in_a_worker(self, handlers: Registry) -> None:
        def write(payload: Any) -> None:
            Webhook.objects.create(url="https://example.com")
            raise OSError("the disk is full")

        register_handler("test.write", write, into=handlers)
        enqueue("test.write", handlers=handlers)

        assert drain_due(handlers=handlers).retried == 1
        assert Webhook.objects.count() == 1

    def test_a_result_that_postgresql_refuses_is_a_failure_that_can_be_stored(self, handlers: Registry) -> None:
        # Beyond what a numeric holds: only the server finds out.
        register_handler("test.large", lambda payload: 10**140_000, into=handlers)
        enqueue("test.large", handlers=handlers)

        limit = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            assert drain_due(handlers=handlers).retried == 1
        finally:
            sys.set_int_max_str_digits(limit)
        assert Task.objects.get().error_code == "unserialisable_result"

    def test_what_a_handler_enqueues_runs_in_the_same_drain_best_first(self, handlers: Registry) -> None:
        ran: list[str] = []

        def run(payload: str) -> None:
            ran.append(payload)
            if payload == "first":
                enqueue("test.run", "follows", handlers=handlers)

        register_handler("test.run", run, into=handlers)
        enqueue("test.run", "second", handlers=handlers)
        enqueue("test.run", "first", priority=5, handlers=handlers)

        assert drain_due(handlers=handlers).ran == 3
        assert ran == ["first", "second", "follows"]

    def test_now_moves_what_is_due_and_where_a_backoff_begins(self, handlers: Registry) -> None:
        attempts: list[int] = []

        def fail(payload: Any, context: TaskContext) -> None:
            attempts.append(context.retry_count)
            raise ValueError

        register_handler("test.fail", fail, retry=RetryPolicy(jitter=0.0, max_retries=2), into=handlers)
        enqueue("test.fail", delay=3600, handlers=handlers)
        start = timezone.now() + timedelta(hours=2)

        assert drain_due(handlers=handlers).ran == 0
        assert drain_due(now=start, handlers=handlers) == DrainSummary(ran=1, retried=1)
        assert Task.objects.get().embargo_until == start + timedelta(seconds=60)
        assert drain_due(now=start + timedelta(seconds=59), handlers=handlers).ran == 0
        assert drain_due(now=start + timedelta(seconds=60), handlers=handlers).retried == 1
        assert drain_due(now=start + timedelta(hours=1), handlers=handlers).dead == 1
        assert attempts == [0, 1, 2]

    def test_a_handler_that_snoozes_into_the_past_is_tried_once_at_one_now(self, handlers: Registry) -> None:
        def wait(payload: Any) -> None:
            raise Snooze(timezone.now() + timedelta(minutes=1))

        register_handler("test.wait", wait, into=handlers)
        enqueue("test.wait", handlers=handlers)

        assert drain_due(now=timezone.now() + timedelta(days=1), handlers=handlers).retried == 1

    def test_limit_queues_paused_and_unknown_types(self, handlers: Registry) -> None:
        register_handler("test.run", lambda payload: None, into=handlers)
        register_handler("test.paused", lambda payload: None, into=handlers)
        QueueControl.objects.create(kind="task_type", name="test.paused", paused_by="ann")
        for queue in ("mail", "mail", "default"):
            enqueue("test.run", queue=queue, handlers=handlers)
        enqueue("test.paused", handlers=handlers)
        enqueue("test.unknown", handlers=handlers)

        assert drain_due(queues=["mail"], limit=1, handlers=handlers).ran == 1
        assert drain_due(queues=["mail"], handlers=handlers).ran == 1
        assert drain_due(handlers=handlers).ran == 1
        assert sorted(Task.objects.filter(status="pending").values_list("task_type", flat=True)) == [
            "test.paused",
            "test.unknown",
        ]

    def test_process_runs_one_and_leaves_a_finished_one_untouched(self, handlers: Registry) -> None:
        runs: list[str] = []
        register_handler("test.run", lambda payload: runs.append(payload), into=handlers)
        task = enqueue("test.run", "this", handlers=handlers)
        enqueue("test.run", "other", handlers=handlers)

        first = process(task.id, handlers=handlers)
        row = Task.objects.filter(id=task.id).values().get()
        second = process(task.id, handlers=handlers)

        assert (first.ran, first.status, first.code) == (True, "success", None)
        assert (second.ran, second.status, second.code) == (False, "success", "terminal_state")
        assert Task.objects.filter(id=task.id).values().get() == row
        assert runs == ["this"]

    def test_process_says_why_it_does_not_run_one(self, handlers: Registry) -> None:
        register_handler("test.run", lambda payload: None, into=handlers)
        QueueControl.objects.create(kind="queue", name="mail", paused_by="ann")
        later = enqueue("test.run", delay=60, handlers=handlers).id
        paused = enqueue("test.run", queue="mail", handlers=handlers).id
        unknown = enqueue("test.unknown", handlers=handlers).id
        running = Task.objects.create(
            task_type="test.run", status="running", attempt=1, worker_id="w", lease_until=timezone.now()
        ).id

        codes = [process(id, handlers=handlers).code for id in (later, paused, unknown, running, "nothing")]

        assert codes == ["not_due", "paused", "unregistered", "invalid_transition", "not_found"]
        assert process(later, now=timezone.now() + timedelta(minutes=2), handlers=handlers).ran

    def test_a_claim_that_was_lost_meanwhile_changes_nothing(self, handlers: Registry) -> None:
        def lose(payload: Any) -> None:
            Task.objects.update(attempt=7, worker_id="another")

        register_handler("test.lose", lose, into=handlers)
        enqueue("test.lose", handlers=handlers)

        assert drain_due(handlers=handlers) == DrainSummary(ran=1, lost=1)
        task = Task.objects.get()
        assert (task.status, task.attempt, task.worker_id) == ("running", 7, "another")

    def test_events_are_those_of_a_worker(self, handlers: Registry) -> None:
        heard: list[tuple[str, str]] = []

        def hear(sender: events.EventType, data: dict[str, Any], **_: Any) -> None:
            heard.append((sender.name, data["task_id"]))

        register_handler("test.run", lambda payload: None, into=handlers)
        task = enqueue("test.run", handlers=handlers)
        for event in (events.CLAIMED, events.RUN):
            event.signal.connect(hear)
        try:
            drain_due(handlers=handlers)
        finally:
            for event in (events.CLAIMED, events.RUN):
                event.signal.disconnect(hear)

        assert heard == [("taskqueue.task.claimed", task.id), ("worker.run", task.id)]

    def test_ctrl_c_gives_the_task_back_and_ends_the_drain(self, handlers: Registry) -> None:
        def interrupted(payload: Any) -> None:
            raise KeyboardInterrupt

        register_handler("test.run", interrupted, into=handlers)
        enqueue("test.run", handlers=handlers)

        with pytest.raises(KeyboardInterrupt):
            drain_due(handlers=handlers)

        task = Task.objects.get()
        assert (task.status, task.retry_count) == ("pending", 0)

    def test_immediate_mode_runs_a_task_once_its_transaction_is_committed(
        self,
        handlers: Registry,
        settings: Settings,
        django_capture_on_commit_callbacks: Any,
    ) -> None:
        settings.TASKQUEUE = {**settings.TASKQUEUE, "MODE": "immediate"}
        runs: list[str] = []

        def run(payload: str) -> None:
            runs.append(payload)
            if payload == "a":
                enqueue("test.run", "follows", handlers=handlers)

        register_handler("test.run", run, into=handlers)

        with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
            enqueue("test.run", "a", handlers=handlers)
            enqueue_many([NewTask(task_type="test.run", payload=n) for n in ("b", "c")], handlers=handlers)
            enqueue("test.run", "later", delay=60, handlers=handlers)
            assert runs == []

        assert sorted(runs) == ["a", "b", "c", "follows"]
        assert Task.objects.get(payload="later").status == "pending"


@pytest.mark.django_db
def test_a_handlers_durable_block_is_as_harmless_as_in_any_test_case(handlers: Registry) -> None:
    def write(payload: Any) -> None:
        with transaction.atomic(durable=True):
            Webhook.objects.create(url="https://example.com")

    register_handler("test.write", write, into=handlers)
    enqueue("test.write", handlers=handlers)

    assert drain_due(handlers=handlers).succeeded == 1


@pytest.mark.django_db
def test_what_was_undone_is_not_done_on_commit(handlers: Registry, django_capture_on_commit_callbacks: Any) -> None:
    told: list[str] = []

    def write(payload: Any) -> None:
        transaction.on_commit(lambda: told.append(payload))
        if payload == "broken":
            with pytest.raises(IntegrityError):
                connection.cursor().execute("INSERT INTO webhooks (url, direction) VALUES ('', 'sideways')")

    register_handler("test.write", write, into=handlers)
    for payload in ("whole", "broken"):
        enqueue("test.write", payload, handlers=handlers)

    with django_capture_on_commit_callbacks(execute=True):
        drain_due(handlers=handlers)

    assert told == ["whole"]


@pytest.mark.django_db(transaction=True)
def test_two_drains_at_once_run_each_task_once(handlers: Registry) -> None:
    ran: list[int] = []
    both = threading.Barrier(2, timeout=_SECONDS)

    def run(payload: int) -> None:
        if payload < 2:
            both.wait()
        ran.append(payload)

    register_handler("test.run", run, into=handlers)
    enqueue_many([NewTask(task_type="test.run", payload=n, priority=-n) for n in range(20)], handlers=handlers)
    summaries: list[DrainSummary] = []

    def drain() -> None:
        summaries.append(drain_due(handlers=handlers))
        connection.close()

    threads = [threading.Thread(target=drain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)

    assert sorted(ran) == list(range(20))
    assert sum(summary.succeeded for summary in summaries) == 20


@pytest.mark.django_db(transaction=True)
def test_the_lease_lasts_as_long_as_the_handler_may_run(handlers: Registry) -> None:
    left: list[float] = []

    def look(payload: Any) -> None:
        task = Task.objects.get()
        assert task.lease_until is not None
        left.append((task.lease_until - timezone.now()).total_seconds())

    register_handler("test.look", look, timeout=500, into=handlers)
    enqueue("test.look", handlers=handlers)

    assert drain_due(handlers=handlers).succeeded == 1
    assert 500 < left[0] <= 560


@pytest.mark.django_db(transaction=True)
def test_an_async_handler_past_its_time_is_cancelled(handlers: Registry) -> None:
    async def hang(payload: Any) -> None:
        await asyncio.Event().wait()

    register_handler("test.hang", hang, timeout=0.2, into=handlers)
    enqueue("test.hang", handlers=handlers)

    assert drain_due(handlers=handlers).retried == 1
    assert TaskAttempt.objects.get().outcome == "timeout"


@pytest.mark.django_db
def test_a_task_whose_worker_was_lost_is_taken_over(handlers: Registry) -> None:
    register_handler("test.run", lambda payload: None, into=handlers)
    Task.objects.create(
        task_type="test.run",
        status="running",
        attempt=1,
        worker_id="gone",
        started_at=timezone.now() - timedelta(hours=1),
        lease_until=timezone.now() - timedelta(minutes=1),
    )

    assert drain_due(handlers=handlers) == DrainSummary(ran=1, succeeded=1)
    assert Task.objects.get().attempt == 2
