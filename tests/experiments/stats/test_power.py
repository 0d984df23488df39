"""The minimum detectable effect: found with the probability asked, in theory and in experiments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from experiments.stats.power import minimum_detectable_effect
from experiments.stats.reference import t_quantile


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("df", [1.9, 5.0, 17.3, 400.0, 1e7])
def test_effect_of_this_size_is_found_with_the_power_asked(df: float, alpha: float, power: float) -> None:
    effect = minimum_detectable_effect(std_error=0.5, df=df, alpha=alpha, power=power)
    assert effect is not None
    found = float(stats.nct.sf(t_quantile(alpha, df), df, effect / 0.5))
    assert found == pytest.approx(power, abs=1e-5)


def test_four_fifths_of_experiments_find_it() -> None:
    std_error = (1 / 12 + 1 / 12) ** 0.5
    effect = minimum_detectable_effect(std_error=std_error, df=22.0, alpha=0.05, power=0.8)
    assert effect is not None
    source = np.random.default_rng(1)
    a, b = source.normal(effect, 1, (4000, 12)), source.normal(0, 1, (4000, 12))
    found = np.mean(stats.ttest_ind(a, b, axis=1).pvalue < 0.05)
    assert float(found) == pytest.approx(0.8, abs=0.02)


def test_many_participants_need_2_8_standard_errors() -> None:
    assert minimum_detectable_effect(std_error=1.0, df=1e6, alpha=0.05, power=0.8) == pytest.approx(2.8016, abs=1e-3)


def test_effect_beyond_doubles_is_none() -> None:
    assert minimum_detectable_effect(std_error=1e308, df=2.0, alpha=0.05, power=0.8) is None


@pytest.mark.parametrize(("power", "expected"), [(0.025, 0.0), (0.001, 0.0), (0.0251, pytest.approx(0.0017, abs=1e-3))])
def test_power_that_chance_alone_gives_needs_no_effect(power: float, expected: object) -> None:
    assert minimum_detectable_effect(std_error=1.0, df=50.0, alpha=0.05, power=power) == expected
