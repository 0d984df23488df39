"""Covariate adjustment: a smaller error for the same effect, and no number where there is too little to say."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from experiments.stats.covariate import adjust
from experiments.stats.cross_moments import CrossMoments


def test_covariate_that_explains_the_outcome_sharpens_the_effect() -> None:
    source = np.random.default_rng(1)
    arms = {}
    for name, effect in (("control", 0.0), ("treated", 1.0)):
        x = source.normal(50, 10, 400)
        arms[name] = CrossMoments.of(x.tolist(), (x + effect + source.normal(0, 1, 400)).tolist())
    got = adjust(arms, baseline="control", alpha=0.05)
    plain, adjusted = got.unadjusted["treated"], got.slope_per_arm["treated"]
    assert plain.std_error is not None
    assert adjusted.std_error is not None
    assert adjusted.estimate == pytest.approx(1.0, abs=0.3)
    assert adjusted.std_error < 0.2 * plain.std_error
    assert adjusted.ci is not None
    assert adjusted.ci[0] < 1.0 < adjusted.ci[1]


def test_constant_covariate_adjusts_nothing() -> None:
    outcomes = {"a": [1.0, 2.0, 3.0, 5.0], "b": [2.0, 4.0, 4.5, 9.0]}
    arms = {name: CrossMoments.of([3.0] * 4, y) for name, y in outcomes.items()}
    got = adjust(arms, baseline="a", alpha=0.05)
    assert got.pooled_slope is None
    assert got.unadjusted["b"].estimate == pytest.approx(2.125)
    assert got.common_slope["b"].reason == "the covariate does not vary within the arms"
    assert got.slope_per_arm["b"].reason == "arm 'b' needs three participants and a covariate that varies"


def test_outcomes_on_a_line_leave_nothing_to_test() -> None:
    x = [0.1, 0.3, 0.7, 1.1]
    arms = {"a": CrossMoments.of(x, [3 * v for v in x]), "b": CrossMoments.of(x, [3 * v + 0.7 for v in x])}
    got = adjust(arms, baseline="a", alpha=0.05)
    for model in (got.common_slope, got.slope_per_arm):
        assert model["b"].estimate == pytest.approx(0.7)
        assert (model["b"].std_error, model["b"].statistic) == (0.0, None)
        assert model["b"].reason == "the standard error is exactly 0"


def test_single_participants_have_no_error() -> None:
    arms = {"a": CrossMoments.of([1.0], [2.0]), "b": CrossMoments.of([1.0, 2.0], [2.0, 5.0])}
    got = adjust(arms, baseline="a", alpha=0.05)
    assert got.unadjusted["b"].reason == "there are too few participants to estimate an error"
    assert json.dumps(asdict(got), allow_nan=False)
