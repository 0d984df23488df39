"""Any rows at all give the sums that plain Python finds, on DuckDB and PostgreSQL."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.pairs import Pair
from experiments.warehouse.query import arm_sums
from experiments.warehouse.sums import GroupSums, MetricSums
from tests.support.query_engines import QueryEngine, id_column, run

type Row = tuple[int | None, float | None, int | None]

ID = id_column()
REAL = Column(name="x", family=Family.DOUBLE, native="DOUBLE PRECISION")
COUNT = Column(name="n", family=Family.INTEGER, native="BIGINT")
TABLE = Table(path=("t",), columns=(ID, REAL, COUNT))

people = st.integers(0, 5)
reals = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e12 + 0.1, math.nan, math.inf, -math.inf, 1e300, 5e-324])
counts = st.none() | st.sampled_from([0, 1, -7, 2**63 - 1, -(2**63)])
rows_of_table = st.lists(st.tuples(st.none() | people, reals, counts), max_size=12)
assignments = st.dictionaries(people, st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1)


@given(rows=rows_of_table, assigned=assignments)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("clustered", [False, True])
def test_sums_are_those_of_plain_python(
    engine: QueryEngine, clustered: bool, rows: list[Row], assigned: dict[int, tuple[int, int]]
) -> None:
    query = arm_sums(dialect=engine.dialect, table=TABLE, id_column=ID, metrics=[REAL, COUNT], clustered=clustered)
    engine.create(TABLE, rows)
    pairs: list[Pair] = [(str(who), arm, cluster if clustered else None) for who, (arm, cluster) in assigned.items()]
    groups = run(engine, query, pairs)
    assert {(group.arm, group.cluster): counts_of(group) for group in groups} == expected_counts(rows, pairs)
    for group in groups:
        values = agreed_values(
            rows, [who for who, arm, cluster in pairs if (arm, cluster) == (group.arm, group.cluster)]
        )
        for sums, mine in zip(group.metrics, values, strict=True):
            assert sums.overflow == any(abs(value) >= 1e140 for value in mine if isinstance(value, float))
            if not sums.overflow and mine:
                assert_same_moments(sums, mine)


type Counts = tuple[int, tuple[tuple[int, int, int, int], ...]]


def counts_of(group: GroupSums) -> Counts:
    return group.n_found, tuple((sums.n, sums.n_null, sums.n_non_finite, sums.n_duplicate) for sums in group.metrics)


def expected_counts(rows: Sequence[Row], pairs: Sequence[Pair]) -> dict[tuple[int, int | None], Counts]:
    found: dict[tuple[int, int | None], list[list[Row]]] = defaultdict(list)
    for who, arm, cluster in pairs:
        if own := [row for row in rows if str(row[0]) == who]:
            found[arm, cluster].append(own)
    return {
        unit: (len(everybody), tuple(verdicts([[row[i] for row in own] for own in everybody]) for i in (1, 2)))
        for unit, everybody in found.items()
    }


def verdicts(everybody: Sequence[Sequence[float | None]]) -> tuple[int, int, int, int]:
    n = n_null = n_non_finite = n_duplicate = 0
    for values in everybody:
        if all(value is None for value in values):
            n_null += 1
        elif all(value is not None and not math.isfinite(value) for value in values):
            n_non_finite += 1
        elif one_value(values) is not None:
            n += 1
        else:
            n_duplicate += 1
    return n, n_null, n_non_finite, n_duplicate


def one_value(values: Sequence[float | None]) -> float | None:
    first = values[0] if values else None
    same = first is not None and math.isfinite(first) and all(value == first for value in values)
    return first if same else None


def agreed_values(rows: Sequence[Row], who: Sequence[str]) -> list[list[float]]:
    columns = [[one_value([row[i] for row in rows if str(row[0]) == person]) for person in who] for i in (1, 2)]
    return [[value for value in column if value is not None] for column in columns]


def assert_same_moments(sums: MetricSums, values: Sequence[float]) -> None:
    """Around the centre that was sent; the centre itself is only near the mean of the arm."""
    assert sums.centre is not None
    centre = Fraction(sums.centre)
    deviations = [Fraction(value) - centre for value in values]
    size = float(sum(abs(deviation) for deviation in deviations))
    assert sums.sum_dev == pytest.approx(float(sum(deviations)), rel=1e-12, abs=1e-15 * size + 1e-149)
    assert sums.sum_sq_dev == pytest.approx(float(sum(deviation**2 for deviation in deviations)), rel=1e-12, abs=1e-290)
