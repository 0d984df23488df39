"""For each event of the catalogue, the smallest piece of the product that says it, driven until it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import psycopg

from taskqueue import log_receiver, store
from taskqueue.database import Connection, Database
from taskqueue.errors import GiveUp
from taskqueue.finishes import Written
from taskqueue.handlers import Registry
from taskqueue.janitor import Janitor
from taskqueue.lease import KeeperPlan, LeaseKeeper
from taskqueue.lifecycle import Event
from taskqueue.listener import Listener
from taskqueue.models import Task
from taskqueue.operations import dead_letter
from taskqueue.outage import Outage
from taskqueue.outcomes import Ending, ending_of_error
from taskqueue.reconciliation.reports import reconcile
from taskqueue.records import Claim
from taskqueue.reports import report_claimed, report_crash_loop, report_refused, report_written
from taskqueue.running import Running
from taskqueue.webhook.handler import send
from taskqueue.webhook.payload import OutboundPayload
from tests.support.damage import findings, repair
from tests.support.deliveries import context_of, courier_of
from tests.support.held import failed, finish_of, finishes_of, held_of, success, tries_of
from tests.support.sessions import Connect, claim, expire_leases, reclaim, serving_of
from tests.support.tasks_in_state import task_in
from xngin_worker.process.composition import compose
from xngin_worker.process.signals import SignalPipe
from xngin_worker.worker_settings import settle

# Stands in every payload, result and message that must never be told.
SECRET = "hunter2"

type Emit = Callable[[Connect], None]


def _finish(ending: Ending) -> Emit:
    def emit(connect: Connect) -> None:
        connection = connect()
        (written,) = finishes_of(finish_of(_claimed(connection), ending)).write(connection)
        report_written(written, worker_id="worker-a")

    return emit


def _claim_one(connect: Connect) -> None:
    report_claimed(_claimed(connect()), worker_id="worker-a")


def _reclaim_one(connect: Connect) -> None:
    connection = connect()
    _claimed(connection)
    expire_leases(connection)
    (taken,) = reclaim(connection)
    report_claimed(taken, worker_id="worker-b")


def _lose_one(connect: Connect) -> None:
    report_written(Written(finish=finish_of(_claimed(connect()), success()), kept=False), worker_id="worker-a")


def _crash(connect: Connect) -> None:
    connection = connect()
    _claimed(connection, lost_count=2)
    expire_leases(connection)
    for loop in store.discard_crash_loops(connection, "worker-b"):
        report_crash_loop(loop)


def _move(state: str) -> Emit:
    def emit(connect: Connect) -> None:
        task_in(state, payload=SECRET)
        dead_letter(Task.objects.all(), actor="somebody", reason="because")

    return emit


def _wait_in_vain(connect: Connect) -> None:
    task_in("due", payload=SECRET, task_type="nobody.knows")
    _janitor().look()


def _keep_a_transaction_open(connect: Connect) -> None:
    connection = connect()
    with connection.transaction():
        connection.execute("SELECT count(*) FROM tasks")
        _janitor(old_transaction_seconds=0.0).look()


def _refuse_a_finish(connect: Connect) -> None:
    finish = finish_of(_claimed(connect()), success())
    report_refused(finish, psycopg.errors.LockNotAvailable("locked"), worker_id="worker-a")


def _get_stuck(connect: Connect) -> None:
    running = Running(2)
    held = held_of(_claimed(connect()))
    held.deadline = -math.inf
    running.add(held)
    assert running.begin(held)
    keeper = LeaseKeeper(
        KeeperPlan(
            serving=serving_of(),
            version="0",
            outage_seconds=60.0,
            draining=lambda: False,
            tries=lambda held: tries_of(),
            deliver=lambda held, ending: None,
            on_all_stuck=lambda: None,
        ),
        database=Database(),
        running=running,
        on_failure=_fail,
    )
    keeper.look()
    keeper.close()


def _stop_listening(connect: Connect) -> None:
    listener = Listener(
        database=Database(name="deaf"),
        worker_id="worker-a",
        hearers={},
        on_change=lambda: None,
        on_failure=_fail,
    )
    listener.look()
    connect().execute(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'deaf: listen'"
    )
    listener.look()
    listener.close()


def _lose_the_database(connect: Connect) -> None:
    outage = Outage(worker_id="worker-a", part="tasks", limit_seconds=60.0)
    outage.failed(psycopg.OperationalError("gone"))
    outage.over()


def _send_a_webhook(connect: Connect) -> None:
    courier = courier_of(allowed_networks=())
    payload = OutboundPayload.model_validate({"url": f"http://127.0.0.1/?token={SECRET}", "body": SECRET})
    try:
        send(payload, context_of(), courier=courier)
    except GiveUp:
        return


def _live_and_fail(connect: Connect) -> None:
    """A whole process, told to end before it has begun."""
    process = compose(
        settle({"poll_interval_seconds": 1.0, "drain_timeout_seconds": 1.0}),
        pgbouncer=False,
        pipe=SignalPipe(),
        handlers=Registry(),
        jobs={},
    )
    log_receiver.disconnect()
    process.supervisor.fail("tasks", RuntimeError("broken"))
    process.run()


def _reconcile(connect: Connect) -> None:
    task_in("due", dedupe_key=SECRET, retry_count=2, max_retries=1)
    reconcile(actor="somebody")


def _repair(*, meanwhile: Callable[[], object] = lambda: None) -> Emit:
    def emit(connect: Connect) -> None:
        task_in("due", payload=SECRET, retry_count=2, max_retries=1)
        found = findings()
        meanwhile()
        repair(*found)

    return emit


EMITTERS: Mapping[str, Emit] = MappingProxyType(
    {
        "worker.run": _finish(success(f'"{SECRET}"')),
        "worker.retry": _finish(failed()),
        "worker.exhausted": _finish(ending_of_error(GiveUp("gone", "for good"), tries_of())),
        "taskqueue.task.claimed": _claim_one,
        "taskqueue.task.reclaimed": _reclaim_one,
        "taskqueue.task.released": _finish(Ending(event=Event.RELEASE)),
        "taskqueue.claim.lost": _lose_one,
        "taskqueue.finish.refused": _refuse_a_finish,
        "taskqueue.task.crash_loop": _crash,
        "taskqueue.transition": _move("due"),
        "taskqueue.transition_refused": _move("success"),
        "taskqueue.types.waiting": _wait_in_vain,
        "taskqueue.handler.stuck": _get_stuck,
        "taskqueue.worker.started": _live_and_fail,
        "taskqueue.worker.draining": _live_and_fail,
        "taskqueue.worker.stopped": _live_and_fail,
        "taskqueue.listen.changed": _stop_listening,
        "taskqueue.database.lost": _lose_the_database,
        "taskqueue.database.back": _lose_the_database,
        "taskqueue.database.old_transaction": _keep_a_transaction_open,
        "taskqueue.service.failed": _live_and_fail,
        "taskqueue.webhook.sent": _send_a_webhook,
        "taskqueue.reconciliation.reported": _reconcile,
        "taskqueue.reconciliation.repaired": _repair(),
        "taskqueue.reconciliation.repair_refused": _repair(meanwhile=lambda: Task.objects.all().delete()),
    }
)


def _claimed(connection: Connection, **values: object) -> Claim:
    task_in("due", payload=SECRET, dedupe_key="k", **values)
    (claimed,) = claim(connection)
    return claimed


def _janitor(**seconds: float) -> Janitor:
    return Janitor(
        database=Database(),
        serving=serving_of(),
        default_max_retries=10,
        outage_seconds=60.0,
        random=lambda: 0.0,
        on_failure=_fail,
        **seconds,
    )


def _fail(part: str, error: BaseException) -> None:
    raise AssertionError(f"{part} failed") from error
