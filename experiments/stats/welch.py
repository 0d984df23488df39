"""The variance of a difference of two independent means: with unequal variances (Welch), and with equal ones."""

from experiments.stats.sufficient import Moments


def welch(a: Moments, b: Moments, *, weight: float = 1.0) -> tuple[float, float]:
    """Variance of ``mean(a) - weight * mean(b)`` and Welch and Satterthwaite's degrees of freedom for it.

    Each sample needs two values or more. Without any variance the degrees of freedom are those of the pooled test.
    """
    of_a = a.centred_ss / (a.n - 1) / a.n
    of_b = weight * weight * b.centred_ss / (b.n - 1) / b.n
    total = of_a + of_b
    if total == 0:
        return 0.0, float(a.n + b.n - 2)
    share = of_a / total  # shares, since squares of variances of tiny values would underflow
    return total, 1 / (share**2 / (a.n - 1) + (1 - share) ** 2 / (b.n - 1))


def pooled(a: Moments, b: Moments) -> float:
    """Variance of the difference of the means when both samples have one variance; together they need three values."""
    return (a.centred_ss + b.centred_ss) / (a.n + b.n - 2) * (1 / a.n + 1 / b.n)
