"""Repairs of the queue's rows. A change of state goes through ``operations``; the rest is what no move ever touches."""

from collections.abc import Mapping
from typing import Any

from django.db.models.functions import Now

from taskqueue import operations
from taskqueue.errors import RepairRefused
from taskqueue.lifecycle import FINAL, Status
from taskqueue.models import Task, Webhook
from taskqueue.reconciliation.repairs import CHANGED, unchanged
from taskqueue.reconciliation.rules import Order, Repair

# Stands in for the worker of a running task that has none, so that a live one takes it over as lost.
NOBODY = "reconciliation"


def _set_aside(order: Order) -> Mapping[str, Any]:
    return _dead_letter(_locked(order), order)


def _set_aside_duplicate(order: Order) -> Mapping[str, Any]:
    """Only while the other one still holds the key: claimed or gone, it leaves this one as the task to be run."""
    keeper_id = order.before["keeper"]
    # Both in the order of their ids, as everybody who locks several tasks.
    locked = {
        task.pk: task
        for task in Task.objects.select_for_update().filter(pk__in=[order.subject["id"], keeper_id]).order_by("pk")
    }
    task, keeper = locked.get(order.subject["id"]), locked.get(keeper_id)
    held = keeper is not None and task is not None and keeper.dedupe_key == task.dedupe_key
    if not held or keeper is None or keeper.status != Status.PENDING:
        raise RepairRefused(CHANGED, f"{keeper_id} does not hold the dedupe key any more; reconcile again")
    unchanged(order, _named(task, order, keeper=keeper_id))
    assert task is not None  # noqa: S101 - a missing row was refused
    return _dead_letter(task, order)


def _set_aside_delivery(order: Order) -> Mapping[str, Any]:
    """Only while its webhook is as disabled, or as gone, as it was."""
    task = Task.objects.select_for_update().filter(pk=order.subject["id"]).first()
    webhook_id = task.payload.get("webhook_id") if task is not None and isinstance(task.payload, dict) else None
    webhook = Webhook.objects.select_for_update(of=("self",)).filter(pk=webhook_id).first()
    disabled_at = None if webhook is None else webhook.disabled_at or "enabled"
    unchanged(order, _named(task, order, disabled_at=disabled_at))
    assert task is not None  # noqa: S101 - a missing row was refused
    return _dead_letter(task, order)


def _dead_letter(task: Task, order: Order) -> Mapping[str, Any]:
    report = operations.dead_letter(Task.objects.filter(pk=task.pk), actor=order.actor, reason=order.reason)
    if report.moved != 1:
        raise RepairRefused(*next(((code, "the move was refused") for code in report.refused), (CHANGED, "it moved")))
    return {"status": Status.DEAD_LETTERED.value}


def _fit_columns(order: Order) -> Mapping[str, Any]:
    """Lease and end time as the status wants them. A running task without a lease becomes one whose lease ran out."""
    task = _locked(order)
    values: dict[str, Any] = {}
    if task.status == Status.RUNNING:
        values = {
            "lease_until": task.lease_until or Now(),
            "worker_id": task.worker_id or NOBODY,
            "finished_at": None,
        }
    else:
        final = task.status in FINAL
        values = {
            "lease_until": None,
            "worker_id": None,
            "finished_at": (task.finished_at or task.updated_at) if final else None,
        }
    Task.objects.filter(pk=task.pk).update(**values)
    written: Mapping[str, Any] = Task.objects.filter(pk=task.pk).values("status", *values).get()
    return written


def _locked(order: Order) -> Task:
    task = Task.objects.select_for_update().filter(pk=order.subject["id"]).first()
    unchanged(order, _named(task, order))
    assert task is not None  # noqa: S101 - a missing row was refused
    return task


def _named(task: Task | None, order: Order, **others: Any) -> Mapping[str, Any] | None:
    """What ``before`` names of the task, beside what is not its own."""
    if task is None:
        return None
    return {**others, **{name: getattr(task, name) for name in order.before if name not in others}}


SET_ASIDE = Repair(
    name="dead_letter_task",
    text="the task is dead-lettered, recorded in `task_transitions`.",
    apply=_set_aside,
    recorded=True,
)
SET_ASIDE_DUPLICATE = Repair(
    name="dead_letter_duplicate",
    text="the older one is dead-lettered, recorded in `task_transitions`, while the newest still holds the key.",
    apply=_set_aside_duplicate,
    recorded=True,
)
SET_ASIDE_DELIVERY = Repair(
    name="dead_letter_delivery",
    text="the task is dead-lettered, recorded in `task_transitions`, while its webhook is still disabled or gone.",
    apply=_set_aside_delivery,
    recorded=True,
)
FIT_COLUMNS = Repair(
    name="fit_task_columns",
    text="`lease_until`, `worker_id` and `finished_at` are set as the status wants them; a running task without a lease"
    " becomes one whose lease ran out, which a worker takes over as lost.",
    apply=_fit_columns,
)
