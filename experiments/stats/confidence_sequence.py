"""Confidence sequences: intervals that hold at every look together, so that looking at each snapshot and stopping at
will keeps the error at alpha. Asymptotic, by the normal mixture of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas
(2021)."""

import math

from experiments.stats.reference import interval
from experiments.stats.results import ConfidenceSequence
from experiments.stats.sufficient import Moments
from experiments.stats.welch import pooled, welch

TUNED_AT = 1000
MINIMUM_PER_ARM = 100
NOT_FOR_CLUSTERS = "none for clustered experiments: later outcomes of a cluster depend on its earlier ones"


def confidence_sequence(a: Moments, b: Moments, *, estimate: float, alpha: float, tuned_at: int) -> ConfidenceSequence:
    """Of the difference of the means of two arms at the present look; ``a`` and ``b`` vary.

    It is narrowest beside an ordinary interval when both arms together have ``tuned_at`` outcomes, a number that must
    be chosen before the first look and kept. There is none before each arm has ``MINIMUM_PER_ARM`` outcomes.

    The standard error is the larger of Welch's and the pooled one. They are the same for arms of equal size; a small
    arm that by chance has seen none of the rare large outcomes yet would otherwise claim to know its mean.
    """
    if min(a.n, b.n) < MINIMUM_PER_ARM:
        return none(tuned_at, f"begins when both arms have {MINIMUM_PER_ARM} outcomes; one has {min(a.n, b.n)}")
    std_error = math.sqrt(max(welch(a, b)[0], pooled(a, b)))
    ci = interval(estimate, std_error, boundary(a.n + b.n, alpha=alpha, tuned_at=tuned_at))
    return ConfidenceSequence(ci=ci, tuned_at=tuned_at, reason=None if ci else "beyond the range of doubles")


def none(tuned_at: int, reason: str) -> ConfidenceSequence:
    return ConfidenceSequence(ci=None, tuned_at=tuned_at, reason=reason)


def boundary(n: float, *, alpha: float, tuned_at: float) -> float:
    """How many standard errors wide each half is at ``n`` outcomes: sqrt((1 + 1/v) log((1 + v) / alpha^2)) with
    v = n rho^2, and rho^2 = (log(1/alpha^2) + log(1 + log(1/alpha^2))) / tuned_at, which nearly minimises it there."""
    surprise = -2 * math.log(alpha)
    v = n / tuned_at * (surprise + math.log1p(surprise))
    return math.sqrt((1 + 1 / v) * (math.log1p(v) + surprise))
