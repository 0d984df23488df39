"""Creating experiments: each type is stored with its parts, and every fault of an input is told at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from experiments.errors import InvalidInput
from experiments.kinds import ExperimentType, FieldUse, PriorType, RewardType
from experiments.models import Arm, Context, Experiment, ExperimentField, ExperimentFilter, ExperimentWebhook
from experiments.operations.create import NewArm, NewContext, NewExperiment, NewFilter, create_experiment
from taskqueue.models import Webhook
from tests.support.experiments import make_datasource

pytestmark = pytest.mark.django_db

_START = datetime(2027, 3, 1, tzinfo=UTC)
_BETA = (NewArm(name="a", alpha_init=1.0, beta_init=2.0), NewArm(name="b", alpha_init=3.0, beta_init=4.0))
_NORMAL = (NewArm(name="a", mu_init=0.0, sigma_init=1.0), NewArm(name="b", mu_init=5.0, sigma_init=2.0))
_FIELDS = (("id", FieldUse.UNIQUE_ID), ("revenue", FieldUse.METRIC))
_OF_TYPE: dict[ExperimentType, dict[str, Any]] = {
    ExperimentType.FREQ_PREASSIGNED: {"datasource_table": "people", "fields": _FIELDS, "clustered": True},
    ExperimentType.FREQ_ONLINE: {"datasource_table": "people", "fields": _FIELDS},
    ExperimentType.MAB_ONLINE: {
        "arms": _BETA,
        "prior_type": PriorType.BETA,
        "reward_type": RewardType.BINARY,
        "enable_autofail": True,
    },
    ExperimentType.MAB_ONLINE_DWH: {
        "arms": _NORMAL,
        "prior_type": PriorType.NORMAL,
        "reward_type": RewardType.REAL_VALUED,
        "noise_sd": 2.0,
        "datasource_table": "people",
        "fields": _FIELDS,
    },
    ExperimentType.CMAB_ONLINE: {
        "arms": _NORMAL,
        "prior_type": PriorType.NORMAL,
        "reward_type": RewardType.BINARY,
        "contexts": (NewContext(name="one"), NewContext(name="member", value_type=RewardType.BINARY)),
    },
}


def _new(experiment_type: ExperimentType = ExperimentType.FREQ_ONLINE, **fields: Any) -> NewExperiment:
    usual: dict[str, Any] = {
        "datasource_id": fields.pop("datasource_id", None) or make_datasource().id,
        "name": "buttons",
        "start_date": _START,
        "end_date": _START + timedelta(days=30),
        "arms": (NewArm(name="a"), NewArm(name="b", weight=3.0)),
        **_OF_TYPE[experiment_type],
    }
    return NewExperiment(experiment_type=experiment_type, **{**usual, **fields})


@pytest.mark.parametrize("experiment_type", ExperimentType)
def test_each_type_is_stored_as_a_draft_and_can_be_committed(experiment_type: ExperimentType) -> None:
    new = _new(experiment_type)
    created = create_experiment(new)

    row = Experiment.objects.get(pk=created.experiment_id)
    assert (row.state, row.experiment_type, row.name) == ("assigned", experiment_type.value, "buttons")
    arms = list(Arm.objects.filter(experiment=row).order_by("position"))
    assert tuple(arm.id for arm in arms) == created.arm_ids
    assert [(arm.position, arm.name, arm.arm_weight) for arm in arms] == [
        (position, arm.name, arm.weight) for position, arm in enumerate(new.arms, start=1)
    ]
    contexts = Context.objects.filter(experiment=row).order_by("position")
    assert [(context.id, context.name, context.value_type) for context in contexts] == [
        (id, context.name, context.value_type.value)
        for id, context in zip(created.context_ids, new.contexts, strict=True)
    ]
    assert list(
        ExperimentField.objects.filter(experiment=row).order_by("position").values_list("field_name", "use")
    ) == [(name, use.value) for name, use in new.fields]
    Experiment.objects.filter(pk=row.pk).update(state="committed")


def test_filters_and_webhooks_are_stored() -> None:
    datasource = make_datasource()
    webhooks = [Webhook.objects.create(url="https://a.test"), Webhook.objects.create(url="https://b.test")]
    filters = [NewFilter(field_name="age", relation="between", value=[18, None])]
    ids = [webhook.id for webhook in webhooks]
    created = create_experiment(_new(datasource_id=datasource.id, filters=filters, webhook_ids=ids))

    assert ExperimentFilter.objects.get(experiment_id=created.experiment_id).value == [18, None]
    links = ExperimentWebhook.objects.filter(experiment_id=created.experiment_id)
    assert sorted(links.values_list("webhook_id", flat=True)) == sorted(ids)


_NAN = float("nan")
_A, _B = _BETA
_MIXED = replace(_B, beta_init=None, mu_init=1.0)
_BETA_PARTS = {f"arms[{number}].{name}_init" for number in (0, 1) for name in ("alpha", "beta")}


@pytest.mark.parametrize(
    ("experiment_type", "fields", "problems"),
    [
        ("freq_online", {"name": ""}, {"name"}),
        ("freq_online", {"name": "a\0b"}, {"name"}),
        ("freq_online", {"description": "\ud800"}, {"description"}),
        ("freq_online", {"end_date": _START - timedelta(seconds=1)}, {"end_date"}),
        ("freq_online", {"start_date": datetime(2027, 1, 1)}, {"start_date"}),  # noqa: DTZ001 - that is the fault
        ("freq_online", {"end_date": datetime(9999, 1, 1, tzinfo=UTC)}, {"end_date"}),
        ("freq_online", {"alpha": 1.0, "power": _NAN}, {"alpha", "power"}),
        ("freq_online", {"desired_n": 0}, {"desired_n"}),
        ("freq_online", {"arms": (NewArm(name="a"),)}, {"arms"}),
        ("freq_online", {"arms": (NewArm(name="a"), NewArm(name="a"))}, {"arms"}),
        ("freq_online", {"arms": (NewArm(name="a"), NewArm(name="b", weight=0.0))}, {"arms[1].weight"}),
        ("freq_online", {"arms": (NewArm(name="a"), NewArm(name="b", weight=_NAN))}, {"arms[1].weight"}),
        ("freq_online", {"arms": (_A, NewArm(name="c"))}, {"arms[0].alpha_init", "arms[0].beta_init"}),
        ("freq_online", {"prior_type": PriorType.BETA, "noise_sd": 1.0, "arms": _BETA}, {"prior_type", "noise_sd"}),
        ("freq_online", {"fields": ()}, {"fields"}),
        ("freq_online", {"datasource_table": None}, {"datasource_table"}),
        ("freq_online", {"fields": (*_FIELDS, ("other", FieldUse.UNIQUE_ID))}, {"fields"}),
        ("freq_online", {"fields": (*_FIELDS, ("revenue", FieldUse.METRIC))}, {"fields"}),
        ("freq_online", {"contexts": (NewContext(name="x"),)}, {"contexts"}),
        ("freq_online", {"enable_autofail": True}, {"enable_autofail"}),
        ("freq_online", {"datasource_id": "ds_none"}, {"datasource_id"}),
        ("freq_online", {"datasource_id": "ds\0"}, {"datasource_id"}),
        ("freq_online", {"webhook_ids": ("wh_none",)}, {"webhook_ids"}),
        (
            "freq_online",
            {"filters": (NewFilter(field_name="", relation="like", value=[]),)},
            {"filters[0].field_name", "filters[0].relation", "filters[0].value"},
        ),
        (
            "freq_online",
            {"filters": (NewFilter(field_name="x", relation="includes", value=[_NAN]),)},
            {"filters[0].value"},
        ),
        ("freq_online", {"filters": (NewFilter(field_name="x", relation="between", value=[1]),)}, {"filters[0].value"}),
        ("mab_online", {"clustered": True}, {"clustered"}),
        ("mab_online", {"prior_type": None}, {"prior_type", *_BETA_PARTS}),
        ("mab_online", {"reward_type": None}, {"reward_type"}),
        ("mab_online", {"reward_type": RewardType.REAL_VALUED}, {"prior_type"}),
        ("mab_online", {"noise_sd": 1.0}, {"noise_sd"}),
        ("mab_online", {"autofail_outcome_value": 0.5}, {"autofail_outcome_value"}),
        ("mab_online", {"autofail_window": 0}, {"autofail_window"}),
        ("mab_online", {"arms": (_A, replace(_B, alpha_init=0.0))}, {"arms[1].alpha_init"}),
        ("mab_online", {"arms": (_A, _MIXED)}, {"arms[1].beta_init", "arms[1].mu_init"}),
        ("mab_online_dwh", {"noise_sd": 0.0}, {"noise_sd"}),
        ("mab_online_dwh", {"fields": (*_FIELDS, ("clicks", FieldUse.METRIC))}, {"fields"}),
        ("mab_online_dwh", {"enable_autofail": True}, {"enable_autofail"}),
        ("cmab_online", {"contexts": ()}, {"contexts"}),
        ("cmab_online", {"contexts": (NewContext(name="x"), NewContext(name="x"))}, {"contexts"}),
        ("cmab_online", {"arms": _BETA, "prior_type": PriorType.BETA}, {"prior_type"}),
    ],
)  # fmt: skip
def test_faults_are_told_by_field_and_nothing_is_stored(
    experiment_type: str, fields: dict[str, Any], problems: set[str]
) -> None:
    new = _new(ExperimentType(experiment_type), **fields)
    with pytest.raises(InvalidInput) as refusal:
        create_experiment(new)

    assert {field for field, _ in refusal.value.problems} == problems
    assert all(field in str(refusal.value) for field in problems)
    assert not Experiment.objects.exists()


def test_kinds_may_be_given_as_texts_and_unknown_ones_are_told() -> None:
    texts: dict[str, Any] = {"prior_type": "beta", "reward_type": "binary", "fields": [("id", "unique_id")]}
    new = _new(ExperimentType.MAB_ONLINE, **texts)
    assert (new.prior_type, new.fields) == (PriorType.BETA, (("id", FieldUse.UNIQUE_ID),))
    create_experiment(new)
    for name, value in (("prior_type", "gamma"), ("reward_type", ""), ("fields", [("id", "key")])):
        with pytest.raises(InvalidInput, match="must be one of") as refusal:
            _new(ExperimentType.MAB_ONLINE, **{name: value})
        assert refusal.value.field == name


def test_a_webhook_of_another_organization_is_refused() -> None:
    webhook = Webhook.objects.create(url="https://a.test", organization_id="o_other")
    with pytest.raises(InvalidInput, match="belongs to another organization"):
        create_experiment(_new(webhook_ids=(webhook.id,)))
