"""Committing and abandoning experiments, each in the caller's transaction or one of its own."""

from dataclasses import dataclass
from typing import Any

import psycopg
from django.db import transaction
from django.db.models.functions import Now
from django.db.utils import IntegrityError

from experiments import events
from experiments.errors import Conflict, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Experiment
from experiments.operations.draw_rows import lock_arms
from experiments.operations.posteriors import recompute_posteriors
from taskqueue.enqueueing import enqueue
from taskqueue.errors import InvalidTask
from taskqueue.models import Event, Webhook
from taskqueue.telemetry import emit

CREATED = "experiment.created"


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The tasks that tell webhooks, and the webhooks that are disabled and were passed over."""

    experiment_id: str
    task_ids: tuple[str, ...]
    skipped_webhook_ids: tuple[str, ...]


def commit_experiment(experiment_id: str, *, correlation_id: str | None = None) -> Committed:
    """assigned → committed: participants may come, jobs run, and its webhooks are told ``experiment.created``.

    The webhooks' tasks are enqueued in the same transaction. A disabled webhook is skipped; a paused one is told later.
    ``correlation_id`` goes with each task; the experiment's id stands in for it.

    Raises ``NotFound``, ``Conflict`` when it is not ``assigned`` any more, and ``InvalidInput`` when its definition is
    incomplete, no participant of a preassigned experiment is loaded, or a webhook's address cannot be used.
    """
    with transaction.atomic():
        # Whoever changes an arm holds it and then looks at the experiment; the other order would deadlock.
        lock_arms(experiment_id)
        experiment = locked(experiment_id)
        if experiment.state != ExperimentState.ASSIGNED:
            raise Conflict(f"{experiment_id} is {experiment.state}, only assigned ones can be committed", field="state")
        _judge_participants(experiment)
        _set_state(experiment, ExperimentState.COMMITTED)
        if ExperimentType(experiment.experiment_type).is_bandit:
            # The priors, so that whoever reads the columns finds numbers from the first draw on.
            recompute_posteriors(experiment_id)
        committed = _tell_webhooks(experiment, correlation_id or experiment_id)
        told = {
            "experiment_id": experiment_id,
            "experiment_type": experiment.experiment_type,
            "webhooks": len(committed.task_ids),
            "webhooks_skipped": len(committed.skipped_webhook_ids),
        }
        transaction.on_commit(lambda: emit(events.COMMITTED, **told))
        return committed


def abandon_experiment(experiment_id: str) -> ExperimentState:
    """assigned or committed → abandoned, for good. The state it left.

    Raises ``NotFound``, and ``Conflict`` when it is abandoned already.
    """
    with transaction.atomic():
        experiment = locked(experiment_id)
        was = ExperimentState(experiment.state)
        if was is ExperimentState.ABANDONED:
            raise Conflict(f"{experiment_id} is abandoned already", field="state")
        _set_state(experiment, ExperimentState.ABANDONED)
        told = {"experiment_id": experiment_id, "experiment_type": experiment.experiment_type, "was": was.value}
        transaction.on_commit(lambda: emit(events.ABANDONED, **told))
        return was


def locked(experiment_id: str) -> Experiment:
    """The experiment, whose state and definition stay until the transaction ends. Raises ``NotFound``."""
    row = Experiment.objects.select_for_update(no_key=True).filter(pk=experiment_id).first()
    if row is None:
        raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment_id")
    return row


def _judge_participants(experiment: Experiment) -> None:
    preassigned = experiment.experiment_type == ExperimentType.FREQ_PREASSIGNED
    if preassigned and not ArmAssignment.objects.filter(experiment=experiment).exists():
        raise InvalidInput(
            f"{experiment.id} is preassigned and has no participants: load them before it is committed",
            field="assignments",
        )


def _set_state(experiment: Experiment, state: ExperimentState) -> None:
    """Raises ``InvalidInput`` with what the database finds missing."""
    try:
        with transaction.atomic():
            Experiment.objects.filter(pk=experiment.pk).update(state=state.value, updated_at=Now())
    except IntegrityError as error:
        cause = error.__cause__
        if not isinstance(cause, psycopg.Error) or cause.diag.constraint_name != "experiments_complete":
            raise
        raise InvalidInput(cause.diag.message_primary or str(cause), field="definition", code="incomplete") from error


def _tell_webhooks(experiment: Experiment, correlation_id: str) -> Committed:
    organization_id = experiment.datasource.organization_id
    body = _body(experiment, organization_id)
    Event.objects.create(type=CREATED, organization_id=organization_id, data=body["data"])
    task_ids, skipped = [], []
    for webhook in Webhook.objects.filter(experiment_links__experiment=experiment).order_by("id"):
        if webhook.disabled_at is not None:
            skipped.append(webhook.id)
            continue
        payload = {
            "url": webhook.url,
            "method": "POST",
            "body": body,
            "organization_id": organization_id,
            "webhook_id": webhook.id,
        }
        try:
            task_ids.append(enqueue("webhook.outbound", payload, correlation_id=correlation_id).id)
        except InvalidTask as error:
            problems = "; ".join(error.problems)
            raise InvalidInput(f"the webhook {webhook.id} cannot be told: {problems}", field="webhook_ids") from error
    return Committed(experiment_id=experiment.id, task_ids=tuple(task_ids), skipped_webhook_ids=tuple(skipped))


def _body(experiment: Experiment, organization_id: str) -> dict[str, Any]:
    """What receivers get; docs/experiments.md shows it."""
    arms = Arm.objects.filter(experiment=experiment).order_by("position")
    return {
        "type": CREATED,
        "data": {
            "experiment_id": experiment.id,
            "organization_id": organization_id,
            "datasource_id": experiment.datasource_id,
            "name": experiment.name,
            "experiment_type": experiment.experiment_type,
            "start_date": experiment.start_date.isoformat(),
            "end_date": experiment.end_date.isoformat(),
            "arms": [{"arm_id": arm.id, "position": arm.position, "name": arm.name} for arm in arms],
        },
    }
