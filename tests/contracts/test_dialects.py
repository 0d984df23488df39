"""The SQL of every query in every dialect, compared with golden files.

After a change that is meant: ``python -m tests.golden.regenerate`` writes ``tests/golden/sql`` anew, and the difference
is read like code: most of these engines run nowhere here.
"""

from __future__ import annotations

from functools import cache

import pytest
import sqlglot
from sqlglot import exp

from experiments.warehouse.dialects import Dialect
from tests.support.golden_queries import FOLDER, golden_text, queries

PLACEHOLDERS = {
    Dialect.POSTGRESQL: "$1",
    Dialect.REDSHIFT: "?",
    Dialect.BIGQUERY: "@pairs",
    Dialect.SNOWFLAKE: "?",
    Dialect.DATABRICKS: ":pairs",
    Dialect.SPARK: ":pairs",
    Dialect.TRINO: "?",
    Dialect.DUCKDB: "?",
}


@cache
def statements(dialect: Dialect) -> dict[str, exp.Select]:
    """Every query as the dialect's own parser reads it: one SELECT each."""
    read = {}
    for title, text in queries(dialect).items():
        (statement,) = sqlglot.parse(text, dialect=dialect.value)
        assert isinstance(statement, exp.Select), title
        read[title] = statement
    return read


@pytest.mark.parametrize("dialect", Dialect)
def test_the_text_of_every_query_is_the_golden_one(dialect: Dialect) -> None:
    assert golden_text(dialect) == (FOLDER / f"{dialect.value}.sql").read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_dialect() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(Dialect)


@pytest.mark.parametrize("dialect", Dialect)
def test_every_query_is_one_statement_with_one_parameter(dialect: Dialect) -> None:
    for title, statement in statements(dialect).items():
        parameters = list(statement.find_all(exp.Placeholder, exp.Parameter))
        assert [parameter.sql(dialect=dialect.value) for parameter in parameters] == [PLACEHOLDERS[dialect]], title


@pytest.mark.parametrize("dialect", Dialect)
def test_every_name_is_quoted_and_every_column_has_its_table(dialect: Dialect) -> None:
    for title, statement in statements(dialect).items():
        for column in statement.find_all(exp.Column):
            whole_element = dialect is Dialect.BIGQUERY and column.name == "e"
            assert column.table or whole_element, f"{title}: {column}"
            assert all(part.args.get("quoted") for part in column.parts), f"{title}: {column}"
        for table in statement.find_all(exp.Table):
            assert all(part.args.get("quoted") for part in table.parts if isinstance(part, exp.Identifier)), title


@pytest.mark.parametrize("dialect", Dialect)
def test_the_id_column_stands_bare_in_the_join(dialect: Dialect) -> None:
    for title, statement in statements(dialect).items():
        conditions = [join.args["on"] for join in statement.find_all(exp.Join) if join.args.get("on")]
        (condition,) = conditions
        equal, *others = condition.flatten() if isinstance(condition, exp.And) else [condition]
        assert isinstance(equal, exp.EQ), title
        assert isinstance(equal.left, exp.Column), title
        assert equal.left.table == "w", title
        assert not others or dialect is Dialect.REDSHIFT, title
