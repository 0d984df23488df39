"""What the database refuses of experiments: values out of range, parts that do not fit together, moves back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Context, Draw, Experiment, ExperimentField, Snapshot
from tests.support.experiments import arms_of, make_datasource, make_experiment
from tests.support.refusals import refused_by

pytestmark = pytest.mark.django_db

_NOON = datetime(2027, 5, 1, 12, tzinfo=UTC)
_FREQ, _MAB = ExperimentType.FREQ_ONLINE, ExperimentType.MAB_ONLINE
_DWH, _CMAB = ExperimentType.MAB_ONLINE_DWH, ExperimentType.CMAB_ONLINE
_NORMAL = {"prior_type": "normal", "reward_type": "real-valued"}
_NAN, _INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("experiment_type", "fields", "constraint"),
    [
        (_FREQ, {"start_date": _NOON, "end_date": _NOON.replace(hour=11)}, "experiments_dates_in_order"),
        (_FREQ, {"end_date": datetime(9500, 1, 1, tzinfo=UTC)}, "experiments_dates_in_order"),
        (_FREQ, {"alpha": 0.0}, "experiments_alpha_in_range"),
        (_FREQ, {"alpha": 1.0}, "experiments_alpha_in_range"),
        (_FREQ, {"alpha": _NAN}, "experiments_alpha_in_range"),
        (_FREQ, {"power": 1.0}, "experiments_power_in_range"),
        (_FREQ, {"power": -0.5}, "experiments_power_in_range"),
        (_FREQ, {"desired_n": 0}, "experiments_desired_n_positive"),
        (_FREQ, {"prior_type": "beta"}, "experiments_prior_and_reward_of_type"),
        (_FREQ, {"reward_type": "binary"}, "experiments_prior_and_reward_of_type"),
        (_MAB, {"prior_type": None}, "experiments_prior_and_reward_of_type"),
        (_MAB, {"reward_type": None}, "experiments_prior_and_reward_of_type"),
        (_MAB, {"reward_type": "real-valued"}, "experiments_prior_and_reward_of_type"),
        (_MAB, {"reward_type": "count"}, "experiments_prior_and_reward_of_type"),
        (_CMAB, {"prior_type": "beta", "reward_type": "binary"}, "experiments_prior_and_reward_of_type"),
        (_MAB, {"noise_sd": 1.0}, "experiments_noise_of_real_rewards"),
        (_MAB, {**_NORMAL, "noise_sd": 0.0}, "experiments_noise_of_real_rewards"),
        (_MAB, {**_NORMAL, "noise_sd": _INF}, "experiments_noise_of_real_rewards"),
        (_MAB, {**_NORMAL, "noise_sd": _NAN}, "experiments_noise_of_real_rewards"),
        (_FREQ, {"noise_sd": 1.0}, "experiments_noise_of_real_rewards"),
        (_DWH, {"enable_autofail": True}, "experiments_autofail_of_online_bandits"),
        (_FREQ, {"enable_autofail": True}, "experiments_autofail_of_online_bandits"),
        (_MAB, {"autofail_window": 0}, "experiments_autofail_window_in_range"),
        (_MAB, {"autofail_outcome_value": 0.5}, "experiments_autofail_outcome_of_reward"),
        (_MAB, {**_NORMAL, "autofail_outcome_value": _INF}, "experiments_autofail_outcome_of_reward"),
        (_MAB, {"clustered": True}, "experiments_clusters_of_frequentist"),
    ],
)
def test_values_that_make_no_sense_are_refused(
    experiment_type: ExperimentType, fields: dict[str, Any], constraint: str
) -> None:
    datasource = make_datasource()
    with refused_by(constraint):
        make_experiment(experiment_type, datasource=datasource, **fields)


@pytest.mark.parametrize(
    ("experiment_type", "state", "constraint"),
    [
        ("freq_online", "committed", "experiments_begin_assigned"),
        ("freq_online", "running", "experiments_begin_assigned"),
        ("freq", "assigned", "experiments_kind_declared"),
    ],
)
def test_an_experiment_begins_assigned_and_is_of_a_known_type(
    experiment_type: str, state: str, constraint: str
) -> None:
    row = {"experiment_type": experiment_type, "state": state, "start_date": _NOON, "end_date": _NOON}
    datasource = make_datasource()
    with refused_by(constraint):
        Experiment.objects.create(datasource=datasource, **row)


@pytest.mark.parametrize(
    ("experiment_type", "fields"),
    [
        (_FREQ, {"start_date": _NOON, "end_date": _NOON}),
        (_MAB, {"autofail_outcome_value": 1.0, "enable_autofail": True, "autofail_window": 1}),
        (_CMAB, {"noise_sd": 1e-300, "autofail_outcome_value": -2.5}),
        (_CMAB, {"reward_type": "binary"}),
    ],
)
def test_values_at_the_edge_are_taken(experiment_type: ExperimentType, fields: dict[str, Any]) -> None:
    assert make_experiment(experiment_type, **fields).state == "committed"


def test_a_datasource_that_does_not_exist_is_refused() -> None:
    experiment = make_experiment(_FREQ)
    with refused_by(_foreign_key("experiments")):
        Experiment.objects.filter(pk=experiment.pk).update(datasource_id="ds_none")


def _foreign_key(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass",
            [table],
        )
        ((name,),) = cursor.fetchall()
    return str(name)


_STATES = list(ExperimentState)
_LEGAL = {("assigned", "committed"), ("assigned", "abandoned"), ("committed", "abandoned")}


@pytest.mark.parametrize("old", _STATES)
@pytest.mark.parametrize("new", _STATES)
def test_states_move_forward_only(old: ExperimentState, new: ExperimentState) -> None:
    experiment = make_experiment(_MAB, state=old)
    row = Experiment.objects.filter(pk=experiment.pk)
    if old == new or (old.value, new.value) in _LEGAL:
        row.update(state=new.value)
    else:
        with refused_by("experiments_legal_move"):
            row.update(state=new.value)


def _without_metric(experiment: Experiment) -> None:
    ExperimentField.objects.filter(experiment=experiment, use="metric").delete()


def _with_two_metrics(experiment: Experiment) -> None:
    ExperimentField.objects.create(experiment=experiment, field_name="clicks", use="metric")


def _without_unique_id(experiment: Experiment) -> None:
    ExperimentField.objects.filter(experiment=experiment, use="unique_id").delete()


def _without_table(experiment: Experiment) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(datasource_table=None)


def _without_baseline(experiment: Experiment) -> None:
    Arm.objects.filter(experiment=experiment, position=1).update(position=3)


def _with_one_arm(experiment: Experiment) -> None:
    Arm.objects.filter(experiment=experiment, position=2).delete()


def _without_prior(experiment: Experiment) -> None:
    Arm.objects.filter(experiment=experiment, position=2).update(
        alpha_init=None, beta_init=None, mu_init=None, sigma_init=None
    )


def _with_other_prior(experiment: Experiment) -> None:
    Arm.objects.filter(experiment=experiment).update(alpha_init=None, beta_init=None, mu_init=0.0, sigma_init=1.0)


def _with_prior(experiment: Experiment) -> None:
    Arm.objects.filter(experiment=experiment, position=2).update(alpha_init=1.0, beta_init=1.0)


def _with_a_context(experiment: Experiment) -> None:
    Context.objects.create(experiment=experiment, position=1, name="age")


def _without_context(experiment: Experiment) -> None:
    Context.objects.filter(experiment=experiment).delete()


def _without_first_context(experiment: Experiment) -> None:
    Context.objects.filter(experiment=experiment, position=1).delete()


@pytest.mark.parametrize(
    ("experiment_type", "spoil"),
    [
        (_FREQ, _without_metric),
        (_FREQ, _without_unique_id),
        (_FREQ, _without_table),
        (_FREQ, _with_prior),
        (_DWH, _with_two_metrics),
        (_MAB, _without_baseline),
        (_MAB, _with_one_arm),
        (_MAB, _without_prior),
        (_MAB, _with_other_prior),
        (_MAB, _with_a_context),
        (_CMAB, _without_context),
        (_CMAB, _without_first_context),
    ],
)
def test_an_incomplete_definition_cannot_be_committed(experiment_type: ExperimentType, spoil: Any) -> None:
    experiment = make_experiment(experiment_type, state=ExperimentState.ASSIGNED)
    spoil(experiment)
    with refused_by("experiments_complete"):
        Experiment.objects.filter(pk=experiment.pk).update(state="committed")


@pytest.mark.parametrize("fields", [{"noise_sd": 2.0}, {"prior_type": "normal"}, {"experiment_type": "mab_online_dwh"}])
def test_what_numbers_are_made_from_is_sealed_by_the_commit(fields: dict[str, Any]) -> None:
    experiment = make_experiment(_MAB)
    with refused_by("experiments_definition_sealed"):
        Experiment.objects.filter(pk=experiment.pk).update(**fields)


def test_dates_and_names_of_a_committed_experiment_may_change() -> None:
    experiment = make_experiment(_MAB)
    Experiment.objects.filter(pk=experiment.pk).update(end_date=_NOON.replace(year=2030), name="new", alpha=0.1)


@pytest.mark.parametrize("experiment_type", [_FREQ, _MAB])
def test_an_experiment_with_participants_is_not_deleted(experiment_type: ExperimentType) -> None:
    experiment = make_experiment(experiment_type)
    row: type[Draw | ArmAssignment] = Draw if experiment_type.is_bandit else ArmAssignment
    row.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id="p")
    with refused_by("experiments_kept_by_participants"):
        Experiment.objects.filter(pk=experiment.pk).delete()

    row.objects.all().delete()
    Experiment.objects.filter(pk=experiment.pk).delete()


def test_a_committed_experiment_without_participants_is_deleted_with_its_parts() -> None:
    experiment = make_experiment(_CMAB)
    Snapshot.objects.create(experiment=experiment)
    Experiment.objects.filter(pk=experiment.pk).delete()
    assert not Arm.objects.exists() and not Context.objects.exists() and not Snapshot.objects.exists()


def test_a_plain_insert_needs_no_more_than_the_facts() -> None:
    datasource = make_datasource()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO experiments (datasource_id, experiment_type, start_date, end_date)"
            " VALUES (%s, 'freq_online', now(), now() + interval '1 day')"
            " RETURNING left(id, 4), state, alpha, power, autofail_window, enable_autofail, clustered",
            [datasource.id],
        )
        assert cursor.fetchone() == ("exp_", "assigned", 0.05, 0.8, 24, False, False)
