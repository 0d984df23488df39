"""Sample ratio mismatch: do the arms have the shares of units that their weights promise? If not, assignment or
logging is broken, and no effect of the experiment should be believed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

THRESHOLD = 0.001
"""Below this p-value ``mismatch`` is true: the check is repeated at every look, so 5 % would cry wolf."""


@dataclass(frozen=True, kw_only=True)
class SampleRatio:
    """``mismatch`` is ``None`` when nothing could be tested; ``reason`` says why, or what is special about the
    numbers."""

    chi_square: float | None
    df: int | None
    p_value: float | None
    mismatch: bool | None
    reason: str | None


def sample_ratio(*, counts: Sequence[int], weights: Sequence[float]) -> SampleRatio:
    """Pearson's chi-square of the counts of units assigned to each arm against the arms' weights, in any unit.

    Count clusters, not participants, where clusters are assigned. An arm of weight 0 must be empty: a unit in it is a
    mismatch without any test. An empty arm of another weight counts as 0.

    Raises ``ValueError`` for negative counts, and weights that are negative, not finite or all 0.
    """
    _check(counts, weights)
    strays = sum(count for count, weight in zip(counts, weights, strict=True) if weight == 0)
    if strays:
        reason = f"{strays} assigned to an arm of weight 0"
        return SampleRatio(chi_square=None, df=None, p_value=0.0, mismatch=True, reason=reason)
    n, total = sum(counts), math.fsum(weights)
    expected = [(count, n * (weight / total)) for count, weight in zip(counts, weights, strict=True) if weight > 0]
    if len(expected) < 2:
        return _untested("only one arm has a weight above 0")
    if n == 0:
        return _untested("nobody is assigned")
    chi_square = math.fsum((count - share) ** 2 / share for count, share in expected)
    df = len(expected) - 1
    p_value = float(special.chdtrc(df, chi_square))
    smallest = min(share for _, share in expected)
    rough = f"an arm is expected to have only {smallest:.3g}: the p-value is rough" if smallest < 5 else None
    return SampleRatio(chi_square=chi_square, df=df, p_value=p_value, mismatch=p_value < THRESHOLD, reason=rough)


def _untested(reason: str) -> SampleRatio:
    return SampleRatio(chi_square=None, df=None, p_value=None, mismatch=None, reason=reason)


def _check(counts: Sequence[int], weights: Sequence[float]) -> None:
    if len(counts) != len(weights):
        raise ValueError(f"weights: there must be one for each of the {len(counts)} counts, not {len(weights)}")
    if any(count < 0 for count in counts):
        raise ValueError(f"counts: must not be negative: {list(counts)}")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise ValueError(f"weights: must be finite, not negative and not all 0: {list(weights)}")
