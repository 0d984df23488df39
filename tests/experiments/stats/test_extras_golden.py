"""The reference cases beside the main analysis: sample ratio, several tests, covariates, ratios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from experiments.stats import multiplicity
from experiments.stats.covariate import AdjustedEffect, adjust
from experiments.stats.cross_moments import CrossMoments
from experiments.stats.ratio import ratio, ratio_differences
from experiments.stats.srm import sample_ratio
from tests.support import golden
from tests.support.golden import Value, assert_close


@pytest.mark.parametrize("case", golden.load("srm"), ids=str)
def test_sample_ratio_is_that_of_the_reference(case: golden.Case) -> None:
    arms = list(case.inputs["counts"])
    got = sample_ratio(
        counts=[case.inputs["counts"][arm] for arm in arms], weights=[case.inputs["weights"][arm] for arm in arms]
    )
    assert_close(case, got.chi_square, case.expected["chi_square"])
    assert_close(case, got.p_value, case.expected["p_value"], Value.P_VALUE)
    assert got.df == case.expected["df"]
    assert got.mismatch == (case.expected["p_value"] < 0.001)


@pytest.mark.parametrize("case", golden.load("multiple_testing"), ids=str)
def test_adjusted_p_values_are_those_of_the_reference(case: golden.Case) -> None:
    for name, adjust_ in (
        ("bonferroni", multiplicity.bonferroni),
        ("holm", multiplicity.holm),
        ("benjamini_hochberg", multiplicity.benjamini_hochberg),
    ):
        assert_close(case, adjust_(case.inputs["p_values"]), case.expected[name], Value.P_VALUE, what=name)


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("case", golden.load("covariate_adjustment"), ids=str)
def test_covariate_adjustment_is_that_of_the_reference(case: golden.Case, batches: int) -> None:
    inputs = case.inputs
    got = adjust(_pairs(inputs, "covariate", "outcome", batches), baseline=inputs["baseline_arm"], alpha=0.05)
    for model in ("unadjusted", "common_slope", "slope_per_arm"):
        effects: Mapping[str, AdjustedEffect] = getattr(got, model)
        assert effects.keys() == case.expected[model].keys()
        for arm, expected in case.expected[model].items():
            for name in ("estimate", "std_error"):
                assert_close(case, getattr(effects[arm], name), expected[name], what=f"{model}: {arm}: {name}")
    assert_close(case, got.pooled_slope, case.expected["pooled_slope"])


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("case", golden.load("ratio_metric"), ids=str)
def test_ratios_are_those_of_the_reference(case: golden.Case, batches: int) -> None:
    arms = _pairs(case.inputs, "denominator", "numerator", batches)
    for arm, expected in case.expected["arms"].items():
        got = ratio(arms[arm], alpha=0.05)
        for name, value in expected.items():
            assert_close(case, getattr(got, name), value, what=f"{arm}: {name}")
    effects = ratio_differences(arms, baseline=case.inputs["baseline_arm"], alpha=0.05)
    assert effects.keys() == case.expected["effects"].keys()
    for arm, expected in case.expected["effects"].items():
        for name, value in expected.items():
            assert_close(case, getattr(effects[arm], name), value, what=f"{arm}: {name}")


def _pairs(inputs: Mapping[str, Any], x: str, y: str, batches: int) -> dict[str, CrossMoments]:
    pairs: dict[str, CrossMoments] = {}
    for arm in inputs["arms"]:
        rows = [index for index, name in enumerate(inputs["arm"]) if name == arm]
        for start in range(batches):
            batch = rows[start::batches]
            sums = CrossMoments.of([inputs[x][row] for row in batch], [inputs[y][row] for row in batch])
            pairs[arm] = pairs[arm].merge(sums) if arm in pairs else sums
    return pairs
