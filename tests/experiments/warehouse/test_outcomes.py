"""Outcomes of single participants as the warehouse has them, good and bad, on DuckDB and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.outcomes import OutcomeRow
from experiments.warehouse.query import outcomes
from tests.support.query_engines import QueryEngine, id_column, run

ID = id_column(Family.TEXT, "TEXT")
NAN, INFINITY = float("nan"), float("inf")


def outcome(family: Family, native: str, precision: int | None = None, scale: int | None = None) -> Column:
    return Column(name="reward", family=family, native=native, precision=precision, scale=scale)


def outcomes_of(engine: QueryEngine, column: Column, values: dict[str, Sequence[object]]) -> dict[str, OutcomeRow]:
    table = Table(path=("t",), columns=(ID, column))
    engine.create(table, [(who, value) for who, several in values.items() for value in several])
    query = outcomes(dialect=engine.dialect, table=table, id_column=ID, outcome=column)
    rows = run(engine, query, [(who, 1, None) for who in [*values, "absent"]])
    return {row.participant: row for row in rows}


def row(who: str, value: object, *, rows: int = 1, agreed: bool = True, non_finite: bool = False) -> OutcomeRow:
    return OutcomeRow(participant=who, n_rows=rows, value=value, agreed=agreed, non_finite=non_finite)


def test_rows_that_agree_give_a_value_and_others_none(engine: QueryEngine) -> None:
    found = outcomes_of(
        engine,
        outcome(Family.DOUBLE, "DOUBLE PRECISION"),
        {
            "one": [0.5],
            "same": [2.0, 2.0],
            "differs": [1.0, 0.0],
            "null": [None, None],
            "half": [1.0, None],
            "nan": [NAN],
            "mixed": [NAN, INFINITY],
            "nan or one": [NAN, 1.0],
            "huge": [1e308],
        },
    )
    assert found == {
        "one": row("one", 0.5),
        "same": row("same", 2.0, rows=2),
        "differs": row("differs", None, rows=2, agreed=False),
        "null": row("null", None, rows=2),
        "half": row("half", None, rows=2, agreed=False),
        "nan": row("nan", None, non_finite=True),
        "mixed": row("mixed", None, rows=2, non_finite=True),
        "nan or one": row("nan or one", None, rows=2, agreed=False),
        "huge": row("huge", 1e308),
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (outcome(Family.BOOLEAN, "BOOLEAN"), True),
        (outcome(Family.BOOLEAN, "BOOLEAN"), False),
        (outcome(Family.INTEGER, "BIGINT"), 2**63 - 1),
        (outcome(Family.DECIMAL, "DECIMAL(20,3)", 20, 3), Decimal("12345678901234567.125")),
        (outcome(Family.DOUBLE, "DOUBLE PRECISION"), 1e12 + 0.1),
        (outcome(Family.TEXT, "TEXT"), "1"),
        (outcome(Family.UUID, "UUID"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ],
)
def test_values_come_back_in_their_own_type(engine: QueryEngine, column: Column, value: object) -> None:
    (found,) = outcomes_of(engine, column, {"a": [value]}).values()
    assert (found.value, type(found.value)) == (value, type(value))


def test_long_texts_are_cut_after_they_were_compared(engine: QueryEngine) -> None:
    found = outcomes_of(
        engine, outcome(Family.TEXT, "TEXT"), {"long": ["x" * 5000], "two": ["x" * 300 + "a", "x" * 300]}
    )
    assert found["long"].value == "x" * 200
    assert (found["two"].value, found["two"].agreed) == (None, False)


def test_an_outcome_of_a_type_without_numbers_or_text_is_refused(engine: QueryEngine) -> None:
    column = outcome(Family.OTHER, "TIMESTAMP")
    with pytest.raises(DatasourceError, match="'reward' of type TIMESTAMP") as refused:
        outcomes(dialect=engine.dialect, table=Table(path=("t",), columns=(ID, column)), id_column=ID, outcome=column)
    assert refused.value.code == "metric_type_unsupported"
