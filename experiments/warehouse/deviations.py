"""The later steps of the sums: each participant judged, a centre for each arm, and the sums of deviations from it.

Two passes in the engine: the centre is an average computed as well as the engine can, and only near the mean; what is
added up are differences taken in the column's own exact type before anything becomes a double. So sums of values like
9e15 + 1 or 1e12 + 0.1 keep their digits, as SUM(y * y) would not (Chan, Golub and LeVeque, 1983).
"""

from collections.abc import Sequence

from sqlglot import exp

from experiments.warehouse.dialects import Dialect
from experiments.warehouse.finite import NEGLIGIBLE
from experiments.warehouse.metrics import Reading
from experiments.warehouse.people import agree, all_non_finite, all_null, too_large
from experiments.warehouse.render import DOUBLE, cast, column, count_if, count_rows, named, number, step

# How a participant counts in one metric.
_VALUE, _TOO_LARGE, _NULL, _NON_FINITE, _DUPLICATE = range(5)


def judged(readings: Sequence[Reading], *, unit: Sequence[str], source: str) -> exp.Select:
    """One line a participant: for each metric a verdict, and the agreed value in the exact type."""
    columns: list[exp.Expr] = [column(source, name) for name in unit]
    for i, reading in enumerate(readings):
        verdict = exp.Case()
        one_value = agree(source, i)
        if (large := too_large(source, i, reading)) is not None:
            verdict = verdict.when(exp.and_(one_value, large), exp.Literal.number(_TOO_LARGE))
            one_value = exp.and_(agree(source, i), exp.not_(large.copy()))
        verdict = verdict.when(agree(source, i), exp.Literal.number(_VALUE))
        verdict = verdict.when(all_null(source, i, reading), exp.Literal.number(_NULL))
        if reading.may_be_non_finite:
            verdict = verdict.when(all_non_finite(source, i, reading), exp.Literal.number(_NON_FINITE))
        low: exp.Expr = column(source, f"low_{i}")
        value = low if reading.exact is None else cast(low, reading.exact)
        columns += [
            named(verdict.else_(exp.Literal.number(_DUPLICATE)), f"verdict_{i}"),
            named(exp.Case().when(one_value.copy(), value), f"x_{i}"),
        ]
    return exp.select(*columns).from_(step(source))


def anchored(readings: Sequence[Reading], *, unit: Sequence[str], source: str, dialect: Dialect) -> exp.Select:
    """Adds the arm's smallest value where averages of decimals are doubles: distances from it keep their digits."""
    columns = _kept(readings, unit=unit, source=source)
    for i, reading in enumerate(readings):
        if _needs_anchor(reading, dialect):
            columns.append(named(_over_arm(exp.Min(this=column(source, f"x_{i}")), source), f"anchor_{i}"))
    return exp.select(*columns).from_(step(source))


def centred(readings: Sequence[Reading], *, unit: Sequence[str], source: str, dialect: Dialect) -> exp.Select:
    """Adds the centre of the arm's values in this chunk, in the exact type."""
    columns = _kept(readings, unit=unit, source=source)
    for i, reading in enumerate(readings):
        columns.append(named(_centre(i, reading, source, dialect), f"centre_{i}"))
    return exp.select(*columns).from_(step(source))


def deviated(readings: Sequence[Reading], *, unit: Sequence[str], source: str) -> exp.Select:
    """Adds the deviations: subtracted exactly, then doubles; those whose square would be nothing are 0."""
    columns: list[exp.Expr] = [column(source, name) for name in unit]
    for i, reading in enumerate(readings):
        difference: exp.Expr = exp.Sub(this=column(source, f"x_{i}"), expression=column(source, f"centre_{i}"))
        if reading.largest is not None and reading.scale is None:
            kind = reading.exact or DOUBLE
            small = exp.Between(this=difference, low=number(f"-{NEGLIGIBLE}", kind), high=number(NEGLIGIBLE, kind))
            difference = exp.Case().when(small, number("0", kind)).else_(difference.copy())
        columns += [
            column(source, f"verdict_{i}"),
            column(source, f"centre_{i}"),
            named(difference if reading.exact is None else cast(difference, DOUBLE), f"deviation_{i}"),
        ]
    return exp.select(*columns).from_(step(source))


def summed(n_metrics: int, *, unit: Sequence[str], source: str) -> exp.Select:
    """The columns of ``sums.FIELDS`` for each metric, one line for each arm or each cluster of an arm."""
    columns: list[exp.Expr] = [*(column(source, name) for name in unit), named(count_rows(), "n_found")]
    for i in range(n_metrics):
        deviation = column(source, f"deviation_{i}")
        square = exp.Mul(this=deviation.copy(), expression=deviation.copy())
        columns += [
            named(_counted(source, i, _VALUE), f"n_{i}"),
            # The same in every line of the arm.
            named(exp.Max(this=column(source, f"centre_{i}")), f"centre_{i}"),
            named(exp.Sum(this=deviation), f"sum_dev_{i}"),
            named(exp.Sum(this=square), f"sum_sq_dev_{i}"),
            named(_counted(source, i, _NULL), f"n_null_{i}"),
            named(_counted(source, i, _NON_FINITE), f"n_non_finite_{i}"),
            named(_counted(source, i, _DUPLICATE), f"n_duplicate_{i}"),
            named(_counted(source, i, _TOO_LARGE), f"n_too_large_{i}"),
        ]
    return exp.select(*columns).from_(step(source)).group_by(*(column(source, name) for name in unit))


def _kept(readings: Sequence[Reading], *, unit: Sequence[str], source: str) -> list[exp.Expr]:
    columns: list[exp.Expr] = [column(source, name) for name in unit]
    for i, _ in enumerate(readings):
        columns += [column(source, f"verdict_{i}"), column(source, f"x_{i}")]
    return columns


def _needs_anchor(reading: Reading, dialect: Dialect) -> bool:
    """PostgreSQL averages numeric exactly; elsewhere the average of decimals is a double, or overflows in the sum."""
    return reading.exact is not None and not reading.narrow and dialect is not Dialect.POSTGRESQL


def _centre(i: int, reading: Reading, source: str, dialect: Dialect) -> exp.Expr:
    value = column(source, f"x_{i}")
    if reading.exact is None:
        return _over_arm(exp.Avg(this=value), source)
    if reading.narrow:
        return cast(exp.Round(this=_over_arm(exp.Avg(this=cast(value, DOUBLE)), source)), reading.exact)
    if not _needs_anchor(reading, dialect):
        average = _over_arm(exp.Avg(this=value), source)
        if reading.scale is None:
            return average
        return exp.Round(this=average, decimals=exp.Literal.number(reading.scale))
    anchor = column(source, f"anchor_{i}")
    distance: exp.Expr = _over_arm(exp.Avg(this=cast(exp.Sub(this=value, expression=anchor), DOUBLE)), source)
    if reading.scale == 0:
        distance = exp.Round(this=distance)
    wider = _one_digit_more(reading.exact)
    return cast(exp.Add(this=anchor.copy(), expression=cast(distance, wider)), wider)


def _one_digit_more(exact: exp.DataType) -> exp.DataType:
    """The type of a difference of two values; types without a number of digits stay."""
    if not exact.expressions:
        return exact.copy()
    precision, scale = (int(parameter.this.this) for parameter in exact.expressions)
    return exp.DataType.build(f"decimal({precision + 1}, {scale})")


def _over_arm(aggregate: exp.Expr, source: str) -> exp.Window:
    return exp.Window(this=aggregate, partition_by=[column(source, "a")])


def _counted(source: str, i: int, verdict: int) -> exp.Expr:
    return count_if(exp.EQ(this=column(source, f"verdict_{i}"), expression=exp.Literal.number(verdict)))
