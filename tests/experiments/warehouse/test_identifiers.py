"""Ids as they are written on the two sides: what matches on real engines, and what is never sent."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.pairs import id_rule
from experiments.warehouse.query import arm_sums, outcomes
from tests.support.query_engines import DuckDB, PostgreSQL, QueryEngine, id_column, run

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
# Everything that an assignment may have as its id.
TEXTS = [
    "42",
    "042",
    " 42",
    "42 ",
    "+42",
    "4.2e1",
    "42.0",
    "-42",
    "142",
    "16777216",
    "16777217",
    "abc",
    "ABC",
    UUID.upper(),
    UUID,
    str(2**63),
    "",
    "\uff14\uff12",
]
METRIC = Column(name="y", family=Family.INTEGER, native="INTEGER")

# Column, what it holds, and which of TEXTS find a row.
COLUMNS: dict[str, tuple[Column, Sequence[object], list[str]]] = {
    "BIGINT": (id_column(), [42, -42, 7], ["42", "-42"]),
    "INTEGER": (id_column(Family.INTEGER, "INTEGER"), [42, 2**31 - 1], ["42"]),
    "SMALLINT": (id_column(Family.INTEGER, "SMALLINT"), [42, -1], ["42"]),
    "TEXT": (id_column(Family.TEXT, "TEXT"), ["42", "042", "abc", UUID, ""], ["42", "042", "abc", UUID, ""]),
    "VARCHAR": (id_column(Family.TEXT, "VARCHAR(3)"), ["42", " 42", "abc"], ["42", " 42", "abc"]),
    "UUID": (id_column(Family.UUID, "UUID"), [UUID, str(uuid.UUID(int=5))], [UUID.upper(), UUID]),
    "NUMERIC(20,0)": (id_column(Family.DECIMAL, "NUMERIC(20,0)"), [42, 2**63], ["42", str(2**63)]),
    "NUMERIC(20,4)": (id_column(Family.DECIMAL, "NUMERIC(20,4)"), [42, -42], ["42", "-42"]),
    "DOUBLE": (id_column(Family.DOUBLE, "DOUBLE PRECISION"), [42.0, -42.0, 1.5], ["42", "-42"]),
    "REAL": (id_column(Family.DOUBLE, "REAL"), [42.0, 16777216.0], ["42", "16777216"]),
}
ONE_ENGINE: dict[str, tuple[type[DuckDB | PostgreSQL], Column, Sequence[object], list[str]]] = {
    "HUGEINT": (DuckDB, id_column(Family.INTEGER, "HUGEINT"), [42, 2**63], ["42", str(2**63)]),
    "UBIGINT": (DuckDB, id_column(Family.INTEGER, "UBIGINT"), [42, 2**63], ["42", str(2**63)]),
    "CHAR(5)": (PostgreSQL, id_column(Family.TEXT, "character(5)"), ["42", "abc", " 42"], ["42", "abc", " 42"]),
    "CHAR(2)": (PostgreSQL, id_column(Family.TEXT, "character(2)"), ["42", "ab"], ["42"]),
    "bpchar": (PostgreSQL, id_column(Family.TEXT, "bpchar"), ["42", "abc", " 42"], ["42", "abc", " 42"]),
    "numeric(4,-2)": (
        PostgreSQL,
        Column(name="id", family=Family.DECIMAL, native="numeric(4,-2)", precision=4, scale=-2),
        [0, 100, 200],
        [],
    ),
    "bare numeric": (PostgreSQL, id_column(Family.DECIMAL, "numeric"), [42, 2**63], ["42", str(2**63)]),
}


def found(engine: QueryEngine, column: Column, held: Sequence[object]) -> list[str]:
    """Those of TEXTS that find a row; every query counts the same."""
    table = Table(path=("t",), columns=(column, METRIC))
    engine.create(table, [(value, i) for i, value in enumerate(held)] + [(None, 99)])
    canonical = {text: sent for text in TEXTS if (sent := id_rule(column).canonical(text)) is not None}
    distinct = sorted(set(canonical.values()))
    query = outcomes(dialect=engine.dialect, table=table, id_column=column, outcome=METRIC)
    rows = run(engine, query, [(sent, 1, None) for sent in distinct])
    assert all(row.n_rows == 1 for row in rows)
    sums = arm_sums(dialect=engine.dialect, table=table, id_column=column, metrics=[METRIC], clustered=False)
    groups = run(engine, sums, [(sent, 1, None) for sent in distinct])
    assert sum(group.n_found for group in groups) == len(rows)
    seen = {row.participant for row in rows}
    return [text for text, sent in canonical.items() if sent in seen]


@pytest.mark.parametrize("case", COLUMNS)
def test_ids_match_only_as_the_column_writes_them(engine: QueryEngine, case: str) -> None:
    column, held, expected = COLUMNS[case]
    assert sorted(found(engine, column, held)) == sorted(expected)


@pytest.mark.parametrize("case", ONE_ENGINE)
def test_ids_match_in_types_of_one_engine(case: str, duck: DuckDB, postgres: PostgreSQL) -> None:
    kind, column, held, expected = ONE_ENGINE[case]
    engine = duck if kind is DuckDB else postgres
    assert sorted(found(engine, column, held)) == sorted(expected)


@pytest.mark.parametrize(
    ("native", "precision", "lowest", "highest"),
    [
        ("smallint", None, -(2**15), 2**15 - 1),
        ("INTEGER", None, -(2**31), 2**31 - 1),
        ("INT64", None, -(2**63), 2**63 - 1),
        ("UTINYINT", None, 0, 255),
        ("HUGEINT", None, -(2**127), 2**127 - 1),
        ("NUMBER(38,0)", 38, 1 - 10**38, 10**38 - 1),
    ],
)
def test_integers_beyond_the_type_are_not_sent(native: str, precision: int | None, lowest: int, highest: int) -> None:
    column = Column(name="id", family=Family.INTEGER, native=native, precision=precision)
    canonical = id_rule(column).canonical
    assert [canonical(str(value)) for value in (lowest, highest)] == [str(lowest), str(highest)]
    assert [canonical(str(value)) for value in (lowest - 1, highest + 1)] == [None, None]
    assert [canonical(text) for text in ("-0", "00", "1_0", "1.0", "٣", "1\n", "")] == [None] * 7
    assert canonical("0") == "0"


def test_decimals_have_no_zero_too_many_and_fit_the_column() -> None:
    canonical = id_rule(id_column(Family.DECIMAL, "NUMERIC(5,2)")).canonical
    assert [canonical(text) for text in ("0", "42", "-1.5", "999.99", "0.01")] == ["0", "42", "-1.5", "999.99", "0.01"]
    refused = ("1.50", "1.", ".5", "1000", "0.001", "-0", "NaN", "Infinity", "1e2", "+1", "")
    assert [canonical(text) for text in refused] == [None] * len(refused)


def test_only_the_shortest_text_of_a_double_is_its_id() -> None:
    canonical = id_rule(id_column(Family.DOUBLE, "double precision")).canonical
    sent = ("9007199254740992", "0.1", "-2.5", "10000000000000000000000", "0.000001")
    assert [canonical(text) for text in sent] == list(sent)
    refused = ("9007199254740993", "0.10000000000000001", "1e22", "NaN", "inf", "-0", "1" + "0" * 309, "")
    assert [canonical(text) for text in refused] == [None] * len(refused)


def test_a_uuid_folds_and_other_ids_do_not() -> None:
    rule = id_rule(id_column(Family.UUID, "uuid"))
    assert rule.folds
    assert rule.canonical(UUID.upper()) == rule.canonical(UUID) == UUID
    assert [rule.canonical(text) for text in (UUID.replace("-", ""), f"{{{UUID}}}", UUID + " ", "")] == [None] * 4
    assert not any(id_rule(column).folds for name, (column, _, _) in COLUMNS.items() if name != "UUID")


def test_texts_that_no_engine_can_hold_are_not_sent() -> None:
    canonical = id_rule(id_column(Family.TEXT, "TEXT")).canonical
    assert [canonical(text) for text in ("a\x00b", "\ud800", "plain 😀'\"\\")] == [None, None, "plain 😀'\"\\"]


@pytest.mark.parametrize("family", [Family.BOOLEAN, Family.OTHER])
def test_a_column_that_identifies_nobody_is_refused(family: Family) -> None:
    with pytest.raises(DatasourceError, match="'id' of type thing cannot hold participants' ids") as refused:
        id_rule(Column(name="id", family=family, native="thing"))
    assert refused.value.code == "id_type_unsupported"


def test_an_integer_type_of_unknown_range_is_refused() -> None:
    with pytest.raises(DatasourceError, match="range is not known: int99"):
        id_rule(Column(name="id", family=Family.INTEGER, native="int99"))


@pytest.mark.parametrize("native", ["decimal(3); DROP TABLE t; --", "uuid) OR (1=1", "no such type", "mood"])
def test_a_type_that_is_no_type_is_refused(native: str) -> None:
    column = Column(name="id", family=Family.UUID, native=native)
    table = Table(path=("t",), columns=(column, METRIC))
    with pytest.raises(DatasourceError, match="cannot be named in a query") as refused:
        outcomes(dialect=Dialect.DUCKDB, table=table, id_column=column, outcome=METRIC)
    assert refused.value.code == "id_type_unsupported"
