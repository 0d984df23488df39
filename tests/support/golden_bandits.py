"""The reference cases of bandits as rows: draws of an experiment, and their outcomes recorded in batches."""

from __future__ import annotations

from experiments.kinds import ExperimentType
from experiments.models import Arm, Draw, Experiment
from experiments.operations.record import record_outcomes
from tests.support.experiments import make_experiment
from tests.support.golden import Case, load


def cases() -> list[Case]:
    return [case for kind in ("bandit_beta", "bandit_gaussian", "bandit_logistic") for case in load(kind)]


def experiment_of(case: Case) -> Experiment:
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


def record(case: Case, experiment: Experiment) -> None:
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
