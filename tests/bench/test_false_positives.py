"""The simulation of false positives: its verdicts, and small runs of it whose rates are far from wrong ones."""

from __future__ import annotations

import pytest

from bench.false_positives import SCENARIOS, Rates, Scenario, rates, table


def _scenario(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


@pytest.mark.parametrize("name", ["5 + 100 units, sd 3 and 1", "10 + 40 clusters of 10 to 50"])
def test_headline_finds_nothing_too_often_where_the_plain_test_does(name: str) -> None:
    found = rates(_scenario(name), runs=800, seed=1)
    assert 0.025 < found.headline < 0.075
    assert found.robust_normal > found.headline


def test_rate_out_of_range_is_told() -> None:
    within = Rates(headline=0.05, cr2=0.05, robust_normal=0.05, robust_t=0.05, runs=10)
    outside = Rates(headline=0.061, cr2=0.05, robust_normal=0.05, robust_t=0.05, runs=10)
    text = table({"3 + 3 units": within, "5 + 5 units": outside, "3 + 3 very unequal clusters": outside}, seed=1)
    assert "| 3 + 3 units | 5.0% | met |" in text
    assert "| 5 + 5 units | 6.1% | **missed** |" in text
    assert "| 3 + 3 very unequal clusters | 6.1% | not asked |" in text
