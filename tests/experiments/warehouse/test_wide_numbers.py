"""Numbers that some engine cannot add up: PostgreSQL's endless numeric, and integers and decimals of 38 digits."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.query import arm_sums
from experiments.warehouse.sums import MetricSums
from tests.support.query_engines import DuckDB, PostgreSQL, QueryEngine, id_column, run

ID = id_column()
NUMERIC = Column(name="y", family=Family.DECIMAL, native="numeric")
HUGEINT = Column(name="y", family=Family.INTEGER, native="HUGEINT")
UHUGEINT = Column(name="y", family=Family.INTEGER, native="UHUGEINT")


def decimal(precision: int, scale: int) -> Column:
    native = f"DECIMAL({precision},{scale})"
    return Column(name="y", family=Family.DECIMAL, native=native, precision=precision, scale=scale)


def sums_of(engine: QueryEngine, metric: Column, values: Sequence[object]) -> MetricSums:
    table = Table(path=("t",), columns=(ID, metric))
    engine.create(table, list(enumerate(values)))
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[metric], clustered=False)
    (group,) = run(engine, query, [(str(i), 1, None) for i in range(len(values))])
    return group.metrics[0]


def mean(sums: MetricSums) -> Fraction:
    assert sums.centre is not None
    return Fraction(sums.centre) + Fraction(sums.sum_dev) / sums.n


@pytest.mark.parametrize("native", ["numeric", "numeric(12,2)"])
def test_nan_of_numeric_is_kept_out(postgres: PostgreSQL, native: str) -> None:
    column = (
        NUMERIC
        if native == "numeric"
        else Column(name="y", family=Family.DECIMAL, native=native, precision=12, scale=2)
    )
    sums = sums_of(postgres, column, [Decimal("1.25"), "NaN", Decimal("3.75"), None])
    assert (sums.n, sums.n_non_finite, sums.n_null, mean(sums), sums.sum_sq_dev) == (2, 1, 1, Fraction(5, 2), 3.125)


def test_infinities_of_numeric_are_kept_out(postgres: PostgreSQL) -> None:
    sums = sums_of(postgres, NUMERIC, [2, "Infinity", "-Infinity", 4])
    assert (sums.n, sums.n_non_finite, sums.centre, sums.sum_sq_dev) == (2, 2, Decimal(3), 2.0)


def test_numeric_beyond_doubles_is_an_overflow(postgres: PostgreSQL) -> None:
    sums = sums_of(postgres, NUMERIC, ["1e400", "-1e9000", 1, None])
    assert (sums.n, sums.n_null, sums.overflow, sums.centre) == (3, 1, True, None)


def test_numeric_too_small_for_doubles_is_no_deviation(postgres: PostgreSQL) -> None:
    sums = sums_of(postgres, NUMERIC, ["1e-400", "0", "-1e-9000"])
    assert (sums.n, sums.sum_dev, sums.sum_sq_dev, sums.overflow) == (3, 0.0, 0.0, False)


def test_numeric_keeps_digits_that_doubles_do_not_have(postgres: PostgreSQL) -> None:
    values = [f"1234567890123456789012345678901234567890123456789{i}.125" for i in range(3)]
    sums = sums_of(postgres, NUMERIC, values)
    assert mean(sums) == Fraction(values[1])
    assert sums.sum_sq_dev == pytest.approx(2.0, rel=1e-15)


def test_integers_of_38_digits_keep_their_digits_up_to_the_limit(duck: DuckDB) -> None:
    top = 10**36 - 1
    sums = sums_of(duck, HUGEINT, [top, top - 2])
    assert mean(sums) == top - 1
    assert (sums.sum_sq_dev - sums.sum_dev**2 / 2, sums.overflow) == (2.0, False)


def test_values_at_both_ends_of_the_limit_do_not_overflow(duck: DuckDB) -> None:
    sums = sums_of(duck, HUGEINT, [10**36 - 1, 1 - 10**36, 0])
    assert (sums.n, sums.overflow) == (3, False)
    assert abs(mean(sums)) < 10**22
    assert sums.sum_sq_dev == pytest.approx(2e72)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (HUGEINT, 2**127 - 1),
        (HUGEINT, -(2**127)),
        (HUGEINT, 10**36),
        (UHUGEINT, 2**128 - 1),
        (decimal(38, 0), Decimal(10**38 - 1)),
        (decimal(38, 10), Decimal(10**28 - 1)),
        (decimal(38, 10), -Decimal(10**26)),
    ],
)
def test_values_beyond_the_limit_are_an_overflow(duck: DuckDB, column: Column, value: object) -> None:
    sums = sums_of(duck, column, [value, 1, None])
    assert (sums.n, sums.n_null, sums.overflow, sums.centre) == (2, 1, True, None)


def test_a_fraction_of_38_digits_is_read_as_a_double(duck: DuckDB) -> None:
    sums = sums_of(duck, decimal(38, 37), [Decimal("1.5"), Decimal("2.5")])
    assert (sums.centre, sums.sum_sq_dev) == (2.0, 0.5)


def test_unsigned_integers_are_subtracted_below_zero(duck: DuckDB) -> None:
    sums = sums_of(duck, Column(name="y", family=Family.INTEGER, native="UBIGINT"), [0, 2**64 - 1])
    assert float(mean(sums)) == pytest.approx(2**63, rel=1e-15)
    sums = sums_of(DuckDB(), UHUGEINT, [0, 2, 4])
    assert (sums.centre, sums.sum_dev, sums.sum_sq_dev) == (2, 0.0, 8.0)
