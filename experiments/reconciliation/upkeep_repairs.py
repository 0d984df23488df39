"""Repairs of the upkeep's rows. None of them runs a job: they close, count and ask, and workers do the rest."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Max, Q
from django.db.models.functions import Now

from experiments.models import Experiment, JobRun, JobState, RunStatus, Snapshot, SnapshotStatus
from taskqueue.errors import RepairRefused
from taskqueue.reconciliation.repairs import CHANGED, unchanged
from taskqueue.reconciliation.rules import Order, Repair

_COUNTED = (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.LOST)


def _close_run(order: Order) -> Mapping[str, Any]:
    chosen = JobRun.objects.filter(pk=order.subject["id"])
    row = chosen.select_for_update(no_key=True).first()
    unchanged(order, None if row is None else {name: getattr(row, name) for name in order.before})
    chosen.update(
        status=RunStatus.LOST,
        finished_at=Now(),
        lease_until=None,
        message=f"closed by a person after {order.reason}",
    )
    return chosen.values("status", "finished_at", "lease_until").get()


def _count_runs(order: Order) -> Mapping[str, Any]:
    """Never less than what was kept: runs may have been pruned since they were counted."""
    experiment_id, job = order.subject["experiment_id"], order.subject["job"]
    # Whoever ends a run holds its row of states too; a run that ends now waits, and counts on.
    Experiment.objects.select_for_update(no_key=True).filter(pk=experiment_id).first()
    kept = JobState.objects.select_for_update().filter(experiment_id=experiment_id, job=job).first()
    now = {name: None if kept is None else getattr(kept, name) for name in order.before}
    unchanged(order, now)
    runs = JobRun.objects.filter(experiment_id=experiment_id, job=job, status__in=_COUNTED)
    told = runs.aggregate(
        n=Count("pk"),
        succeeded_at=Max("started_at", filter=Q(status=RunStatus.SUCCESS)),
        ended_well_at=Max("finished_at", filter=Q(status=RunStatus.SUCCESS)),
        failed_at=Max("finished_at", filter=~Q(status=RunStatus.SUCCESS)),
    )
    failed = runs.exclude(status=RunStatus.SUCCESS)
    if told["ended_well_at"] is not None:
        failed = failed.filter(finished_at__gt=told["ended_well_at"])
    values = {
        "runs": max(told["n"], 0 if kept is None else kept.runs),
        "succeeded_at": _later(told["succeeded_at"], None if kept is None else kept.succeeded_at),
        "failed_at": _later(told["failed_at"], None if kept is None else kept.failed_at),
        "failures": failed.count(),
    }
    JobState.objects.update_or_create(experiment_id=experiment_id, job=job, defaults=values)
    return values


def _later(one: Any, other: Any) -> Any:
    return max((at for at in (one, other) if at is not None), default=None)


def _ask_for_snapshot(order: Order) -> Mapping[str, Any]:
    experiment_id = order.subject["id"]
    experiment = Experiment.objects.select_for_update(no_key=True).filter(pk=experiment_id).first()
    last = JobState.objects.filter(experiment_id=experiment_id, job=order.subject["job"]).first()
    unchanged(
        order,
        None
        if experiment is None
        else {"state": experiment.state, "succeeded_at": None if last is None else last.succeeded_at},
    )
    pending = Snapshot.objects.filter(experiment_id=experiment_id, status=SnapshotStatus.PENDING)
    if pending.exists():
        raise RepairRefused(CHANGED, "one is asked for already; a worker that runs jobs makes it")
    made = Snapshot.objects.create(experiment_id=experiment_id)
    return {"snapshot": made.pk}


def _fail_snapshot(order: Order) -> Mapping[str, Any]:
    chosen = Snapshot.objects.filter(pk=order.subject["id"])
    row = chosen.select_related("experiment").select_for_update(no_key=True).first()
    unchanged(order, None if row is None else {"status": row.status, "experiment": row.experiment.state})
    chosen.update(
        status=SnapshotStatus.FAILED,
        message=f"the experiment was abandoned; {order.reason}",
        updated_at=Now(),
    )
    return chosen.values("status", "message").get()


CLOSE_RUN = Repair(
    name="close_job_run",
    text="the unfinished run is closed as `lost`, so that its later writes are refused and the job is tried again."
    " Of a finished one, none; a person must.",
    apply=_close_run,
)
COUNT_RUNS = Repair(
    name="count_job_runs",
    text="the row is made from `job_runs`, and never says less than it did.",
    apply=_count_runs,
)
ASK_FOR_SNAPSHOT = Repair(
    name="ask_for_snapshot",
    text="a `pending` snapshot is inserted, which a worker makes at once.",
    apply=_ask_for_snapshot,
)
FAIL_SNAPSHOT = Repair(
    name="fail_snapshot",
    text="that of an abandoned experiment is set to `failed`. Of a committed one, none; a worker must.",
    apply=_fail_snapshot,
)
