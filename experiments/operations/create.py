"""Creating an experiment with all its parts, as a draft: all or nothing, and every fault told at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import transaction

from experiments.errors import InvalidInput
from experiments.models import (
    Arm,
    Context,
    Datasource,
    Experiment,
    ExperimentField,
    ExperimentFilter,
    ExperimentWebhook,
)
from experiments.operations.definition import NewArm, NewContext, NewExperiment, NewFilter, Problem, problems_of
from taskqueue.ids import new_ids
from taskqueue.models import Webhook

__all__ = ["Created", "NewArm", "NewContext", "NewExperiment", "NewFilter", "create_experiment"]


@dataclass(frozen=True, kw_only=True)
class Created:
    """Ids in the order in which arms and contexts were given."""

    experiment_id: str
    arm_ids: tuple[str, ...]
    context_ids: tuple[str, ...]


def create_experiment(new: NewExperiment) -> Created:
    """Store the experiment in state ``assigned``; ``commit_experiment`` starts it.

    Raises ``InvalidInput`` with all ``problems``; nothing is stored then.
    """
    problems = [*problems_of(new), *_unknown(new)]
    if problems:
        raise InvalidInput.of(problems)
    with transaction.atomic():
        return _store(new)


def _unknown(new: NewExperiment) -> Iterator[Problem]:
    """Rows that are named and do not exist, or belong to somebody else."""
    datasource = Datasource.objects.filter(pk=str(new.datasource_id).replace("\0", "")).first()
    if datasource is None:
        yield "datasource_id", f"there is no datasource {new.datasource_id!r}"
        return
    owners = dict(Webhook.objects.filter(pk__in=new.webhook_ids).values_list("id", "organization_id"))
    for id in new.webhook_ids:
        if id not in owners:
            yield "webhook_ids", f"there is no webhook {id!r}"
        elif owners[id] not in (None, datasource.organization_id):
            yield "webhook_ids", f"the webhook {id!r} belongs to another organization"


def _store(new: NewExperiment) -> Created:
    experiment = Experiment.objects.create(
        datasource_id=new.datasource_id,
        datasource_table=new.datasource_table,
        name=new.name,
        description=new.description,
        experiment_type=new.experiment_type.value,
        start_date=new.start_date,
        end_date=new.end_date,
        clustered=new.clustered,
        prior_type=new.prior_type.value if new.prior_type else None,
        reward_type=new.reward_type.value if new.reward_type else None,
        noise_sd=new.noise_sd,
        enable_autofail=new.enable_autofail,
        autofail_window=new.autofail_window,
        autofail_outcome_value=new.autofail_outcome_value,
        alpha=new.alpha,
        power=new.power,
        desired_n=new.desired_n,
    )
    arms = [
        Arm(
            id=id,
            experiment=experiment,
            position=position,
            name=arm.name,
            description=arm.description,
            arm_weight=arm.weight,
            alpha_init=arm.alpha_init,
            beta_init=arm.beta_init,
            mu_init=arm.mu_init,
            sigma_init=arm.sigma_init,
        )
        for position, (id, arm) in enumerate(zip(new_ids("arm_", len(new.arms)), new.arms, strict=True), start=1)
    ]
    Arm.objects.bulk_create(arms)
    contexts = [
        Context(
            id=id,
            experiment=experiment,
            position=position,
            name=context.name,
            description=context.description,
            value_type=context.value_type.value,
        )
        for position, (id, context) in enumerate(
            zip(new_ids("ctx_", len(new.contexts)), new.contexts, strict=True), start=1
        )
    ]
    Context.objects.bulk_create(contexts)
    ExperimentField.objects.bulk_create(
        ExperimentField(experiment=experiment, field_name=name, use=use.value, position=position)
        for position, (name, use) in enumerate(new.fields, start=1)
    )
    ExperimentFilter.objects.bulk_create(
        ExperimentFilter(
            experiment=experiment, field_name=each.field_name, relation=each.relation, value=list(each.value)
        )
        for each in new.filters
    )
    ExperimentWebhook.objects.bulk_create(
        ExperimentWebhook(experiment=experiment, webhook_id=id) for id in new.webhook_ids
    )
    return Created(
        experiment_id=experiment.id,
        arm_ids=tuple(arm.id for arm in arms),
        context_ids=tuple(context.id for context in contexts),
    )
