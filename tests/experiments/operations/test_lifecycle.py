"""Committing tells webhooks in the same transaction; a state moves forward, and the second to ask is told."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from experiments.errors import Conflict, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Experiment, ExperimentField, ExperimentWebhook
from experiments.operations.lifecycle import abandon_experiment, commit_experiment
from taskqueue.models import Event, Task, Webhook
from tests.support.experiments import arms_of, make_experiment

pytestmark = pytest.mark.django_db


def _draft(experiment_type: ExperimentType = ExperimentType.MAB_ONLINE, **fields: Any) -> Experiment:
    return make_experiment(experiment_type, state=ExperimentState.ASSIGNED, **fields)


def _state(experiment: Experiment) -> str:
    experiment.refresh_from_db()
    return experiment.state


def _link(experiment: Experiment, **fields: Any) -> Webhook:
    webhook = Webhook.objects.create(**{"url": "https://example.com/hook", **fields})
    ExperimentWebhook.objects.create(experiment=experiment, webhook=webhook)
    return webhook


def test_committing_tells_each_enabled_webhook_what_was_created() -> None:
    experiment = _draft(name="buttons")
    told, paused = _link(experiment), _link(experiment, paused_until="2099-01-01T00:00Z")
    disabled = _link(experiment, disabled_at="2027-01-01T00:00Z", disabled_reason="gone")

    committed = commit_experiment(experiment.id, correlation_id="request-1")

    assert _state(experiment) == "committed"
    assert committed.skipped_webhook_ids == (disabled.id,)
    tasks = list(Task.objects.filter(id__in=committed.task_ids))
    payloads: list[Any] = [task.payload for task in tasks]
    assert {payload["webhook_id"] for payload in payloads} == {told.id, paused.id}
    assert {(task.task_type, task.correlation_id) for task in tasks} == {("webhook.outbound", "request-1")}
    payload = payloads[0]
    organization_id = experiment.datasource.organization_id
    assert payload["url"] == "https://example.com/hook"
    assert payload["organization_id"] == organization_id
    assert payload["body"] == {
        "type": "experiment.created",
        "data": {
            "experiment_id": experiment.id,
            "organization_id": organization_id,
            "datasource_id": experiment.datasource_id,
            "name": "buttons",
            "experiment_type": "mab_online",
            "start_date": experiment.start_date.isoformat(),
            "end_date": experiment.end_date.isoformat(),
            "arms": [{"arm_id": arm.id, "position": arm.position, "name": arm.name} for arm in arms_of(experiment)],
        },
    }
    event = Event.objects.get(type="experiment.created")
    assert (event.organization_id, event.data) == (organization_id, payload["body"]["data"])


def test_a_commit_that_is_rolled_back_tells_nobody() -> None:
    experiment = _draft()
    _link(experiment)
    with pytest.raises(RuntimeError), transaction.atomic():
        commit_experiment(experiment.id)
        raise RuntimeError("something else fails")
    assert (_state(experiment), Task.objects.count(), Event.objects.count()) == ("assigned", 0, 0)


def test_a_webhook_whose_address_cannot_be_used_stops_the_commit() -> None:
    experiment = _draft()
    webhook = _link(experiment, url="ftp://example.com/")
    with pytest.raises(InvalidInput, match=webhook.id) as refusal:
        commit_experiment(experiment.id)
    assert refusal.value.field == "webhook_ids"
    assert (_state(experiment), Task.objects.count()) == ("assigned", 0)


def test_the_posterior_of_a_new_bandit_is_its_prior() -> None:
    experiment = _draft()
    Arm.objects.filter(experiment=experiment, position=2).update(alpha_init=2.5, beta_init=7.0)
    commit_experiment(experiment.id)
    assert [(arm.alpha, arm.beta) for arm in arms_of(experiment)] == [(1.0, 1.0), (2.5, 7.0)]


def test_an_incomplete_definition_is_told_and_stays_a_draft() -> None:
    experiment = _draft(ExperimentType.FREQ_ONLINE)
    ExperimentField.objects.filter(experiment=experiment).delete()
    with pytest.raises(InvalidInput, match="reads the warehouse") as refusal:
        commit_experiment(experiment.id)
    assert refusal.value.code == "incomplete"
    assert _state(experiment) == "assigned"


def test_a_preassigned_experiment_needs_its_participants_first() -> None:
    experiment = _draft(ExperimentType.FREQ_PREASSIGNED)
    with pytest.raises(InvalidInput, match="load them before"):
        commit_experiment(experiment.id)
    ArmAssignment.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p")
    commit_experiment(experiment.id)
    assert _state(experiment) == "committed"


@pytest.mark.parametrize("state", [ExperimentState.COMMITTED, ExperimentState.ABANDONED])
def test_only_a_draft_is_committed(state: ExperimentState) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE, state=state)
    _link(experiment)
    with pytest.raises(Conflict, match=f"is {state}"):
        commit_experiment(experiment.id)
    assert (_state(experiment), Task.objects.count()) == (state, 0)


@pytest.mark.parametrize("state", [ExperimentState.ASSIGNED, ExperimentState.COMMITTED])
def test_an_experiment_is_abandoned_once(state: ExperimentState) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE, state=state)
    assert abandon_experiment(experiment.id) is state
    assert _state(experiment) == "abandoned"
    with pytest.raises(Conflict, match="abandoned already"):
        abandon_experiment(experiment.id)


def test_an_experiment_that_does_not_exist_is_not_found() -> None:
    for operation in (commit_experiment, abandon_experiment):
        with pytest.raises(NotFound, match="exp_none"):
            operation("exp_none")
