"""A short run of the coverage simulation: gross mistakes in an interval show in a few hundred runs."""

from __future__ import annotations

import pytest

from bench.credible_intervals import KINDS, Kind, coverage, table


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_intervals_hold_the_truth_about_as_often_as_they_claim(kind: Kind) -> None:
    # Four Monte Carlo standard errors of 150 runs: seven percentage points.
    assert coverage(kind, runs=150, seed=3) == pytest.approx(0.95, abs=0.07)


def test_table_says_which_kinds_missed() -> None:
    text = table([(KINDS[0], 0.951), (KINDS[1], 0.18)], runs=4000, seed=1)
    assert f"| {KINDS[0].name} | 95.10% | met |" in text
    assert f"| {KINDS[1].name} | 18.00% | **missed** |" in text
    assert "4000 runs each, seed 1" in text and "± 0.7%" in text
