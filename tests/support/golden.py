"""The reference cases of ``tests/golden/stats`` and how to compare with them: its README defines the tolerances."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "stats"


class Value(StrEnum):
    """What a compared number is; some kinds have an allowance of their own."""

    PLAIN = "plain"
    ESTIMATE = "estimate"  # means, estimates and interval ends
    STATISTIC = "statistic"
    P_VALUE = "p_value"
    P_BEST = "p_best"  # and expected_loss
    EXACT_POSTERIOR = "exact_posterior"


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    kind: str
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any]
    tolerance: Mapping[str, float]

    def __str__(self) -> str:
        return self.id


@cache
def load(kind: str) -> tuple[Case, ...]:
    """Every case of one kind (``frequentist``, ``bandit_beta``, ``srm``, ...). Fails when there is none."""
    cases = []
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text())
        if data["kind"] == kind:
            cases.append(Case(**{name: data[name] for name in ("id", "kind", "inputs", "expected", "tolerance")}))
    assert cases, f"{FOLDER} has no case of kind {kind}"
    return tuple(cases)


def assert_close(case: Case, got: object, expected: object, value: Value = Value.PLAIN, *, what: str = "") -> None:
    """Numbers within the case's tolerance for this kind of value, lists entry by entry, all else equal; null is
    None."""
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        assert isinstance(got, Sequence), f"{case}: {what} is {got!r}, expected {expected!r}"
        assert len(got) == len(expected), f"{case}: {what} has {len(got)} entries, expected {len(expected)}"
        for index, (one, other) in enumerate(zip(got, expected, strict=True)):
            assert_close(case, one, other, value, what=f"{what}[{index}]")
        return
    if expected is None or isinstance(expected, (str, bool)):
        assert got == expected, f"{case}: {what} is {got!r}, expected {expected!r}"
        return
    assert isinstance(expected, (int, float))
    assert isinstance(got, (int, float)), f"{case}: {what} is {got!r}, expected {expected!r}"
    assert math.isfinite(got), f"{case}: {what} is {got!r}"
    allowed = _allowance(case.tolerance, float(expected), value)
    assert abs(got - expected) <= allowed, f"{case}: {what} is {got!r}, expected {expected!r} within {allowed:.3g}"


def _allowance(tolerance: Mapping[str, float], expected: float, value: Value) -> float:
    if value is Value.P_VALUE:
        relative = tolerance.get("p_value_rtol", tolerance["rtol"])
        return tolerance.get("p_value_atol", tolerance["atol"]) + relative * abs(expected)
    extra = 0.0 if value is Value.PLAIN else tolerance.get(f"{value}_atol", 0.0)
    return tolerance["atol"] + tolerance["rtol"] * abs(expected) + extra


def outcome(entry: object) -> object:
    """A warehouse column's entry as Python has it: the texts that JSON uses for NaN and infinities become floats."""
    return float(entry) if entry in ("NaN", "Infinity", "-Infinity") and isinstance(entry, str) else entry
