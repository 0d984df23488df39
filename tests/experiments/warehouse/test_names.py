"""Names are data: any text names a table or a column, and none can become code."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.query import arm_sums, outcomes
from tests.support.query_engines import QueryEngine, run

NAMES = [
    "plain",
    "Two Words",
    "select",
    "GROUP",
    'double"quote',
    "it's",
    "back`tick",
    "back\\slash",
    "ends with \\",
    "semi;colon",
    "dotted.name",
    "100%",
    "%s %(name)s",
    "$1",
    "?",
    ":pairs",
    "@pairs",
    "{brace}",
    "new\nline",
    "tab\tulator",
    "-- comment",
    "/* comment */",
    "größe 😀",
    "step_sent",
    "step_people",
    "w",
    "k",
    "p",
    "value_0",
    '"; DROP TABLE "t"; --',
    "1); DROP TABLE t; --",
    "' OR '1'='1",
    "` OR 1=1 -- ",
]


def columns_of(name: str) -> tuple[Column, Column, Column]:
    return (
        Column(name=f"{name} id", family=Family.INTEGER, native="BIGINT"),
        Column(name=name, family=Family.INTEGER, native="BIGINT"),
        Column(name=name.swapcase() + " 2", family=Family.DOUBLE, native="DOUBLE PRECISION"),
    )


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_and_its_columns_works(engine: QueryEngine, name: str) -> None:
    columns = columns_of(name)
    table = Table(path=(name,), columns=columns)
    engine.create(table, [(1, 2, 3.0), (2, 4, 5.0)])
    sums = arm_sums(dialect=engine.dialect, table=table, id_column=columns[0], metrics=columns[1:], clustered=True)
    (group,) = run(engine, sums, [("1", 1, 1), ("2", 1, 1)])
    assert [(metric.n, metric.centre) for metric in group.metrics] == [(2, 3), (2, 4.0)]
    query = outcomes(dialect=engine.dialect, table=table, id_column=columns[0], outcome=columns[2])
    assert sorted((row.participant, row.value) for row in run(engine, query, [("1", 1, None), ("2", 1, None)])) == [
        ("1", 3.0),
        ("2", 5.0),
    ]


@pytest.mark.parametrize("dialect", Dialect)
def test_every_dialect_reads_the_names_back_from_one_statement(dialect: Dialect) -> None:
    # No name of BigQuery has a dot: it divides the parts of a path, inside quotation marks too.
    names = [name for name in NAMES if dialect is not Dialect.BIGQUERY or "." not in name]
    metrics = [Column(name=name, family=Family.INTEGER, native="BIGINT") for name in names]
    identity = Column(name="".join(names), family=Family.TEXT, native="TEXT")
    path = ("".join(names[:9]), "".join(names[9:19]), "".join(names[19:]))
    query = arm_sums(
        dialect=dialect, table=Table(path=path, columns=()), id_column=identity, metrics=metrics, clustered=False
    )
    (statement,) = sqlglot.parse(query.sql, dialect=dialect.value)
    assert isinstance(statement, exp.Select)
    read = {column.name for column in statement.find_all(exp.Column) if column.table == "w"}
    assert read == {identity.name, *names}
    assert path in {(found.catalog, found.db, found.name) for found in statement.find_all(exp.Table)}


@pytest.mark.parametrize("name", ["step_sent", "STEP_FOUND", "step__sent"])
def test_a_table_named_like_a_step_is_not_hidden_by_it(engine: QueryEngine, name: str) -> None:
    columns = columns_of("n")
    table = Table(path=(name,), columns=columns)
    engine.create(table, [(1, 2, 3.0)])
    query = outcomes(dialect=engine.dialect, table=table, id_column=columns[0], outcome=columns[1])
    assert [row.value for row in run(engine, query, [("1", 1, None)])] == [2]
