"""The simulation of confidence sequences, small: they hold where plain intervals fail, and its verdicts are right."""

from __future__ import annotations

from bench.confidence_sequences import SCENARIOS, Failures, failures, table


def test_sequence_holds_over_many_looks_where_the_plain_interval_fails() -> None:
    found = failures(SCENARIOS[0], (5, 5), runs=400, seed=1)
    assert found.sequence <= 0.05
    assert found.plain > 0.2


def test_sequence_that_fails_is_told() -> None:
    bad, good = Failures(sequence=0.06, plain=0.4, width=3.0), Failures(sequence=0.04, plain=0.4, width=3.0)
    text = table({("normal", "1 + 1"): (good, True), ("skewed", "1 + 1"): (bad, True)}, runs=10, seed=1)
    assert "| normal | 1 + 1 | 4.0% | met |" in text
    assert "| skewed | 1 + 1 | 6.0% | **missed** |" in text
