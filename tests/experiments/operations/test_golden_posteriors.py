"""The reference cases of bandits through the tables: outcomes recorded for draws give the expected posteriors."""

from __future__ import annotations

import pytest

from experiments.models import Arm
from experiments.operations.posteriors import recompute_posteriors
from tests.support.golden import Case, assert_close
from tests.support.golden_bandits import cases, experiment_of, record

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("case", cases(), ids=str)
def test_recorded_outcomes_give_the_reference_posterior(case: Case) -> None:
    experiment = experiment_of(case)
    record(case, experiment)

    # What no outcome touched is the prior, which only a recomputation writes down.
    untouched = set(Arm.objects.filter(experiment=experiment, alpha=None, mu=None).values_list("id", flat=True))
    assert set(recompute_posteriors(experiment.id).changed) == untouched
    for arm in Arm.objects.filter(experiment=experiment):
        expected = case.expected["arms"][arm.name]
        assert arm.n_outcomes == expected["n_outcomes"]
        for name in {"alpha", "beta", "mu", "covariance"} & set(expected):
            assert_close(case, getattr(arm, name), expected[name], what=f"{arm.name}.{name}")
