"""Differential missingness: are outcomes missing more often in some arms than in others? If so, the arms that are
left may differ for another reason than the treatment."""

from collections.abc import Sequence

from scipy import special

from experiments.stats.results import Missingness

SMALLEST_EXPECTED = 5.0


def differential_missingness(*, observed: Sequence[int], missing: Sequence[int], baseline: int) -> Missingness:
    """From counts of participants by arm; ``baseline`` is an index. Arms without participants are left out.

    Pearson's chi-square without continuity correction when every expected count is at least ``SMALLEST_EXPECTED``;
    otherwise Fisher's exact test of each arm against the baseline, the smallest p-value times the number of such tests.
    """
    table = [(seen, gone) for seen, gone in zip(observed, missing, strict=True) if seen + gone > 0]
    n_seen, n_gone = sum(seen for seen, _ in table), sum(gone for _, gone in table)
    if len(table) < 2:
        return no_test("fewer than two arms have participants")
    if n_gone == 0 or n_seen == 0:
        return no_test("no outcome is missing" if n_gone == 0 else "every outcome is missing")
    n = n_seen + n_gone
    smallest = min(seen + gone for seen, gone in table) * min(n_seen, n_gone) / n
    if smallest >= SMALLEST_EXPECTED:
        statistic = _chi_square(table, n_seen / n)
        df = len(table) - 1
        return Missingness(
            method="chi_square",
            statistic=statistic,
            df=df,
            p_value=float(special.chdtrc(df, statistic)),
            reason=None,
        )
    if observed[baseline] + missing[baseline] == 0:
        return no_test("the baseline has no participants to compare the others with, and counts are small")
    others = [arm for arm in range(len(observed)) if arm != baseline and observed[arm] + missing[arm] > 0]
    # A second to import, and few processes come here.
    from scipy import stats

    p_values = [
        float(stats.fisher_exact([[observed[arm], missing[arm]], [observed[baseline], missing[baseline]]]).pvalue)
        for arm in others
    ]
    return Missingness(
        method="fisher", statistic=None, df=None, p_value=min(1.0, len(others) * min(p_values)), reason=None
    )


def no_test(reason: str) -> Missingness:
    return Missingness(method=None, statistic=None, df=None, p_value=None, reason=reason)


def _chi_square(table: Sequence[tuple[int, int]], share_seen: float) -> float:
    """The two cells of an arm deviate by the same number from what is expected."""
    total = 0.0
    for seen, gone in table:
        size = seen + gone
        total += (seen - size * share_seen) ** 2 / (size * share_seen * (1 - share_seen))
    return total
