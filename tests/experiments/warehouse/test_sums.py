"""The sums of one chunk on DuckDB and PostgreSQL: precision, duplicates, NULL and non-finite values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.pairs import Pair
from experiments.warehouse.query import arm_sums
from experiments.warehouse.sums import GroupSums, MetricSums, parse_sums
from tests.support.query_engines import QueryEngine, id_column, run

ID = id_column()
DOUBLE = Column(name="y", family=Family.DOUBLE, native="DOUBLE PRECISION")
BIGINT = Column(name="y", family=Family.INTEGER, native="BIGINT")
INTEGER = Column(name="y", family=Family.INTEGER, native="INTEGER")
NAN, INFINITY = float("nan"), float("inf")


def sums_of(
    engine: QueryEngine, metric: Column, rows: Sequence[tuple[object, object]], pairs: Sequence[Pair] | None = None
) -> MetricSums:
    """Of one metric, where everybody is in arm 1."""
    table = Table(path=("t",), columns=(ID, metric))
    engine.create(table, rows)
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[metric], clustered=False)
    everybody = dict.fromkeys(str(identity) for identity, _ in rows if identity is not None)
    (group,) = run(engine, query, pairs or [(identity, 1, None) for identity in everybody])
    return group.metrics[0]


def mean_and_squares(sums: MetricSums) -> tuple[Fraction, float]:
    assert sums.centre is not None
    mean = Fraction(sums.centre) + Fraction(sums.sum_dev) / sums.n
    return mean, sums.sum_sq_dev - sums.sum_dev**2 / sums.n


def exactly(values: Sequence[int | float | Decimal]) -> tuple[Fraction, float]:
    fractions = [Fraction(value) for value in values]
    mean = sum(fractions, Fraction(0)) / len(fractions)
    return mean, float(sum(((value - mean) ** 2 for value in fractions), Fraction(0)))


EXACT_CASES: dict[str, tuple[Column, Sequence[int | float | Decimal]]] = {
    "doubles near 1e12": (DOUBLE, [1e12 + 0.1 * (i % 3) for i in range(1001)]),
    "doubles near 1e-12": (DOUBLE, [1e-12 * (1 + i / 7) for i in range(100)]),
    "doubles around zero": (DOUBLE, [math.sin(i) for i in range(100)]),
    "integers near 9e15": (BIGINT, [9_000_000_000_000_000 + i % 5 for i in range(100)]),
    "narrow integers at both ends": (INTEGER, [2**31 - 1, -(2**31), 2**31 - 2, 5]),
    "narrow integers at one end": (INTEGER, [2**31 - 1 - i % 3 for i in range(50)]),
    "integers at both ends": (BIGINT, [2**63 - 1, -(2**63), 2**63 - 1, 2**63 - 2]),
    "integers at one end": (BIGINT, [2**63 - 1 - i % 4 for i in range(50)]),
    "small decimals": (
        Column(name="y", family=Family.DECIMAL, native="DECIMAL(12,4)", precision=12, scale=4),
        [Decimal(i).scaleb(-4) for i in range(100)],
    ),
    "long decimals": (
        Column(name="y", family=Family.DECIMAL, native="DECIMAL(34,4)", precision=34, scale=4),
        [Decimal(f"123456789012345678901234567890.00{i:02d}") for i in range(100)],
    ),
    "decimals of 38 digits": (
        Column(name="y", family=Family.DECIMAL, native="DECIMAL(38,10)", precision=38, scale=10),
        [Decimal(f"12345678901234567890.12345678{i:02d}") for i in range(100)],
    ),
}


@pytest.mark.parametrize("case", EXACT_CASES)
def test_mean_and_squares_keep_their_digits(engine: QueryEngine, case: str) -> None:
    metric, values = EXACT_CASES[case]
    sums = sums_of(engine, metric, list(enumerate(values)))
    mean, squares = mean_and_squares(sums)
    true_mean, true_squares = exactly(values)
    assert sums.n == len(values)
    # The error of the mean is nothing beside the spread of the values, however far they are from zero.
    assert abs(float(mean - true_mean)) <= 1e-12 * math.sqrt(true_squares / len(values))
    assert squares == pytest.approx(true_squares, rel=1e-12)


def test_booleans_count_as_zero_and_one(engine: QueryEngine) -> None:
    flag = Column(name="y", family=Family.BOOLEAN, native="BOOLEAN")
    sums = sums_of(engine, flag, [(1, True), (2, False), (3, True), (4, None)])
    assert (sums.n, sums.n_null) == (3, 1)
    mean, squares = mean_and_squares(sums)
    assert (mean, squares) == (Fraction(2, 3), 1 - 1 / 3)


def test_narrow_floats_and_integers_are_read(engine: QueryEngine) -> None:
    real = Column(name="y", family=Family.DOUBLE, native="REAL")
    assert sums_of(engine, real, [(1, 0.5), (2, 1.5)]).centre == 1.0


def test_non_finite_values_are_counted_and_kept_out(engine: QueryEngine) -> None:
    rows = [(1, 2.0), (2, NAN), (3, INFINITY), (4, -INFINITY), (5, 4.0), (6, None)]
    sums = sums_of(engine, DOUBLE, rows)
    assert (sums.n, sums.n_null, sums.n_non_finite, sums.n_duplicate) == (2, 1, 3, 0)
    assert (sums.centre, sums.sum_dev, sums.sum_sq_dev, sums.overflow) == (3.0, 0.0, 2.0, False)


DUPLICATES: dict[str, tuple[list[float | None], str]] = {
    "same value": ([5.0, 5.0, 5.0], "n"),
    "two values": ([5.0, 6.0], "n_duplicate"),
    "value and NULL": ([5.0, None], "n_duplicate"),
    "all NULL": ([None, None], "n_null"),
    "all non-finite": ([NAN, INFINITY, NAN], "n_non_finite"),
    "value and NaN": ([5.0, NAN], "n_duplicate"),
    "NULL and NaN": ([None, NAN], "n_duplicate"),
    "both zeros": ([0.0, -0.0], "n"),
}


@pytest.mark.parametrize("case", DUPLICATES)
def test_a_participant_with_several_rows_counts_once(engine: QueryEngine, case: str) -> None:
    values, counted = DUPLICATES[case]
    sums = sums_of(engine, DOUBLE, [(1, value) for value in values])
    counts = {name: getattr(sums, name) for name in ("n", "n_null", "n_non_finite", "n_duplicate")}
    assert counts == {name: int(name == counted) for name in counts}


def test_rows_that_disagree_in_one_metric_count_in_the_other(engine: QueryEngine) -> None:
    other = Column(name="z", family=Family.INTEGER, native="INTEGER")
    table = Table(path=("t",), columns=(ID, DOUBLE, other))
    engine.create(table, [(1, 2.5, 7), (1, 2.5, 8), (2, 3.5, 9)])
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[DOUBLE, other], clustered=False)
    (group,) = run(engine, query, [("1", 1, None), ("2", 1, None)])
    assert group.n_found == 2
    assert [(sums.n, sums.n_duplicate) for sums in group.metrics] == [(2, 0), (1, 1)]


def test_null_ids_and_rows_of_strangers_match_nothing(engine: QueryEngine) -> None:
    sums = sums_of(
        engine, DOUBLE, [(None, 100.0), (1, 2.0), (99, 50.0), (None, None)], [("1", 1, None), ("2", 1, None)]
    )
    assert (sums.n, sums.n_null, sums.centre) == (1, 0, 2.0)


def test_nobody_found_is_no_row_at_all(engine: QueryEngine) -> None:
    table = Table(path=("t",), columns=(ID, DOUBLE))
    engine.create(table, [(1, 2.0)])
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[DOUBLE], clustered=False)
    assert run(engine, query, [("7", 1, None)]) == ()
    assert run(engine, query, []) == ()


def test_values_too_large_to_square_are_an_overflow_with_its_counts(engine: QueryEngine) -> None:
    sums = sums_of(engine, DOUBLE, [(1, 1e308), (2, -1e308), (3, 1.0), (4, None), (5, 1e308), (5, 1e308)])
    assert sums.overflow
    assert (sums.n, sums.n_null, sums.centre, sums.sum_dev, sums.sum_sq_dev) == (4, 1, None, 0.0, 0.0)


def test_large_values_below_the_limit_are_summed(engine: QueryEngine) -> None:
    sums = sums_of(engine, DOUBLE, [(i, (-1) ** i * 9e139) for i in range(1000)])
    assert not sums.overflow
    assert mean_and_squares(sums)[1] == pytest.approx(1000 * 81e278)


def test_tiny_deviations_are_nothing_instead_of_an_underflow(engine: QueryEngine) -> None:
    sums = sums_of(engine, DOUBLE, [(1, 5e-324), (2, 1e-200), (3, 0.0), (4, -1e-170)])
    assert (sums.n, sums.sum_dev, sums.sum_sq_dev, sums.overflow) == (4, 0.0, 0.0, False)


def test_clusters_have_their_own_rows_with_the_centre_of_the_arm(engine: QueryEngine) -> None:
    table = Table(path=("t",), columns=(ID, BIGINT))
    engine.create(table, [(i, 10 * i) for i in range(6)])
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[BIGINT], clustered=True)
    pairs: list[Pair] = [("0", 1, 7), ("1", 1, 7), ("2", 1, 2**40), ("3", 2, 7), ("4", 2, 7), ("9", 2, 8)]
    groups = sorted(run(engine, query, pairs), key=lambda group: (group.arm, group.cluster or 0))
    assert [(group.arm, group.cluster, group.n_found) for group in groups] == [(1, 7, 2), (1, 2**40, 1), (2, 7, 2)]
    assert [group.metrics[0].centre for group in groups] == [10, 10, 35]
    assert [(group.metrics[0].sum_dev, group.metrics[0].sum_sq_dev) for group in groups] == [
        (-10.0, 100.0),
        (10.0, 100.0),
        (0.0, 50.0),
    ]


def test_arms_are_kept_apart_and_share_no_centre(engine: QueryEngine) -> None:
    table = Table(path=("t",), columns=(ID, DOUBLE))
    engine.create(table, [(1, 1e12), (2, 1e12 + 1), (3, 1e-9)])
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[DOUBLE], clustered=False)
    groups: dict[int, GroupSums] = {
        group.arm: group for group in run(engine, query, [("1", 1, None), ("2", 1, None), ("3", 5, None)])
    }
    assert (groups[1].metrics[0].centre, groups[5].metrics[0].centre) == (1e12 + 0.5, 1e-9)


@pytest.mark.parametrize("family", [Family.TEXT, Family.UUID, Family.OTHER])
def test_a_metric_without_numbers_is_refused(engine: QueryEngine, family: Family) -> None:
    metric = Column(name="note", family=family, native="TEXT")
    table = Table(path=("t",), columns=(ID, metric))
    with pytest.raises(DatasourceError, match="'note' of type TEXT is no metric") as refused:
        arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[metric], clustered=False)
    assert refused.value.code == "metric_type_unsupported"


def test_without_metrics_participants_are_counted(engine: QueryEngine) -> None:
    table = Table(path=("t",), columns=(ID, DOUBLE))
    engine.create(table, [(1, 1.0), (1, 2.0), (2, None)])
    query = arm_sums(dialect=engine.dialect, table=table, id_column=ID, metrics=[], clustered=False)
    assert run(engine, query, [("1", 4, None), ("2", 4, None), ("3", 4, None)]) == (
        GroupSums(arm=4, cluster=None, n_found=2, metrics=()),
    )


@pytest.mark.parametrize("broken", [(NAN, 1.0), (1.0, INFINITY), (-INFINITY, NAN)])
def test_sums_that_are_no_numbers_are_an_overflow(broken: tuple[float, float]) -> None:
    (group,) = parse_sums([(1, 3, 2, 0.5, *broken, 1, 0, 0, 0)], metrics=[DOUBLE], clustered=False)
    (sums,) = group.metrics
    assert (sums.n, sums.n_null, sums.overflow, sums.centre, sums.sum_dev) == (2, 1, True, None, 0.0)


def test_numbers_of_any_driver_are_read() -> None:
    cells = (Decimal(2), "12345678901234567", Decimal("1.5"), 2, "1", Decimal(0), 0, 0)
    (group,) = parse_sums([["1", Decimal(7), "3", *cells]], metrics=[BIGINT], clustered=True)  # type: ignore[list-item]
    assert (group.arm, group.cluster, group.n_found) == (1, 7, 3)
    assert group.metrics[0] == MetricSums(
        n=2, centre=12345678901234567, sum_dev=1.5, sum_sq_dev=2.0, n_null=1, n_non_finite=0, n_duplicate=0
    )
