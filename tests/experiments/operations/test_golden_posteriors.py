"""The reference cases of bandits through the tables: outcomes recorded for draws give the expected posteriors."""

from __future__ import annotations

import pytest

from experiments.kinds import ExperimentType
from experiments.models import Arm, Draw, Experiment
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import record_outcomes
from tests.support.experiments import make_experiment
from tests.support.golden import Case, assert_close, load

pytestmark = pytest.mark.django_db

_CASES = [case for kind in ("bandit_beta", "bandit_gaussian", "bandit_logistic") for case in load(kind)]


def _experiment_of(case: Case) -> Experiment:
    inputs = case.inputs
    priors = [
        {
            "name": arm["arm"],
            "alpha_init": arm.get("alpha_init"),
            "beta_init": arm.get("beta_init"),
            "mu_init": arm.get("mu_init"),
            "sigma_init": arm.get("prior_sd"),
        }
        for arm in inputs["arms"]
    ]
    experiment = make_experiment(
        ExperimentType(inputs["experiment_type"]),
        arms=priors,
        contexts=len(inputs.get("contexts", ())),
        prior_type=inputs["prior_type"],
        reward_type=inputs["reward_type"],
        noise_sd=inputs.get("noise_sd"),
    )
    arms = {arm.name: arm.id for arm in Arm.objects.filter(experiment=experiment)}
    Draw.objects.bulk_create(
        Draw(
            experiment=experiment,
            arm_id=arms[draw["arm"]],
            participant_id=draw["participant_id"],
            context_vals=draw.get("context"),
        )
        for draw in inputs["draws"]
    )
    return experiment


def _record(case: Case, experiment: Experiment) -> None:
    """In five batches, the last first, automatic ones apart."""
    known = [draw for draw in reversed(case.inputs["draws"]) if draw["outcome"] is not None]
    for batch in range(5):
        for autofailed in (False, True):
            outcomes = {
                draw["participant_id"]: draw["outcome"]
                for draw in known[batch::5]
                if draw.get("autofailed", False) is autofailed
            }
            report = record_outcomes(experiment.id, outcomes, autofailed=autofailed)
            assert (report.applied, report.unknown, report.refused) == (len(outcomes), (), ())


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_recorded_outcomes_give_the_reference_posterior(case: Case) -> None:
    experiment = _experiment_of(case)
    _record(case, experiment)

    # What no outcome touched is the prior, which only a recomputation writes down.
    untouched = set(Arm.objects.filter(experiment=experiment, alpha=None, mu=None).values_list("id", flat=True))
    assert set(recompute_posteriors(experiment.id).changed) == untouched
    for arm in Arm.objects.filter(experiment=experiment):
        expected = case.expected["arms"][arm.name]
        assert arm.n_outcomes == expected["n_outcomes"]
        for name in {"alpha", "beta", "mu", "covariance"} & set(expected):
            assert_close(case, getattr(arm, name), expected[name], what=f"{arm.name}.{name}")
