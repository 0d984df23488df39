"""The id column is never wrapped, so PostgreSQL looks participants up in its index, whatever the type of the ids."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.pairs import encode
from experiments.warehouse.query import arm_sums, outcomes
from tests.support.query_engines import PostgreSQL, id_column

METRIC = Column(name="y", family=Family.DOUBLE, native="double precision")
EXPRESSIONS = {
    "bigint": (Family.INTEGER, "i"),
    "integer": (Family.INTEGER, "i"),
    "smallint": (Family.INTEGER, "(i % 30000)"),
    "text": (Family.TEXT, "'u' || i"),
    "character varying(40)": (Family.TEXT, "'u' || i"),
    "character(12)": (Family.TEXT, "'u' || i"),
    "uuid": (Family.UUID, "md5(i::text)::uuid"),
    "numeric(20,0)": (Family.DECIMAL, "i"),
    "numeric": (Family.DECIMAL, "i"),
    "double precision": (Family.DOUBLE, "i"),
    "real": (Family.DOUBLE, "i"),
}


@pytest.mark.parametrize("native", EXPRESSIONS)
def test_participants_are_looked_up_in_the_index(postgres: PostgreSQL, native: str) -> None:
    family, expression = EXPRESSIONS[native]
    ids = id_column(family, native)
    table = Table(path=("people",), columns=(ids, METRIC))
    connection = postgres.connection
    connection.execute(f"CREATE TEMPORARY TABLE people (id {native}, y double precision)".encode())
    connection.execute(
        f"INSERT INTO people SELECT ({expression})::{native}, i FROM generate_series(1, 60000) AS s(i)".encode()  # noqa: S608
    )
    connection.execute("CREATE INDEX people_by_id ON people (id)")
    connection.execute("ANALYZE people")
    for query in (
        arm_sums(dialect=Dialect.POSTGRESQL, table=table, id_column=ids, metrics=[METRIC], clustered=True),
        outcomes(dialect=Dialect.POSTGRESQL, table=table, id_column=ids, outcome=METRIC),
    ):
        ((plan,),) = postgres.fetch(f"EXPLAIN (FORMAT JSON) {query.sql}", encode([("1", 1, 1)]))
        nodes = list(nodes_of(cast("list[dict[str, Any]]", plan)[0]["Plan"]))
        assert [node["Index Name"] for node in nodes if "Index Name" in node] == ["people_by_id"], json.dumps(plan)
        assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]


def nodes_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(below for child in node.get("Plans", []) for below in nodes_of(child))]
