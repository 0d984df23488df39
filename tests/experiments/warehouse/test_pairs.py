"""Chunks of assignments: below every limit, complete, in order, and the same result however they are cut."""

from __future__ import annotations

import json
import math
import tracemalloc
from fractions import Fraction

import duckdb
import pytest

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.pairs import Pair, PairLimits, chunks, encode, limits
from experiments.warehouse.query import arm_sums
from tests.support.query_engines import DuckDB, id_column

MANY = 300_000


def test_a_chunk_is_one_json_text_of_ascii_without_apostrophes() -> None:
    rows: list[Pair] = [("it's", 1, None), ('q"uo\\te', 2, 7), ("ü😀\n", 3, None)]
    text = encode(rows)
    assert text.isascii()
    assert "'" not in text
    assert json.loads(text) == [
        {"p": "it's", "a": 1},
        {"p": 'q"uo\\te', "a": 2, "c": 7},
        {"p": "ü😀\n", "a": 3},
    ]
    assert encode([]) == "[]"


@pytest.mark.parametrize("dialect", Dialect)
def test_no_chunk_passes_the_limits_of_its_engine(dialect: Dialect) -> None:
    rows: list[Pair] = [(f"participant-{i:024d}'", i % 3, i) for i in range(60_000)]
    cut = list(chunks(rows, limits(dialect)))
    assert max(len(chunk.parameter) for chunk in cut) <= limits(dialect).bytes
    assert max(chunk.rows for chunk in cut) <= limits(dialect).rows
    assert [item["p"] for chunk in cut for item in json.loads(chunk.parameter)] == [
        participant for participant, _, _ in rows
    ]
    assert [chunk.rows for chunk in cut] == [len(json.loads(chunk.parameter)) for chunk in cut]
    # As few as the limits allow: all but the last are full.
    for chunk in cut[:-1]:
        assert chunk.rows == limits(dialect).rows or len(chunk.parameter) > limits(dialect).bytes - 100


def test_ids_of_usual_length_fill_chunks_of_ten_thousand_where_the_engine_allows() -> None:
    rows: list[Pair] = [(f"{i:036d}", 1, None) for i in range(10_000)]
    narrow = {dialect for dialect in Dialect if len(list(chunks(rows, limits(dialect)))) > 1}
    assert narrow == {Dialect.REDSHIFT}


def test_chunks_end_exactly_at_the_limit() -> None:
    rows: list[Pair] = [("a", 1, None)] * 5
    size = len(encode(rows[:2]))
    assert [chunk.rows for chunk in chunks(rows, PairLimits(rows=9, bytes=size))] == [2, 2, 1]
    assert [chunk.rows for chunk in chunks(rows, PairLimits(rows=9, bytes=size - 1))] == [1] * 5
    assert [chunk.rows for chunk in chunks(rows, PairLimits(rows=3, bytes=10**6))] == [3, 2]
    assert list(chunks([], PairLimits(rows=3, bytes=10**6))) == []


def test_an_id_longer_than_a_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="70,000 characters, too many for one parameter"):
        list(chunks([("x" * 70_000, 1, None)], limits(Dialect.REDSHIFT)))


def test_only_one_chunk_is_in_memory() -> None:
    tracemalloc.start()
    try:
        n_chunks = sum(1 for _ in chunks(((f"{i:036d}", 1, None) for i in range(150_000)), limits(Dialect.POSTGRESQL)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_chunks == 6
    assert peak < 3 * 25_000 * (60 + 50)  # the texts of one chunk, apart and joined


def test_a_full_chunk_and_a_long_query_fit_the_text_of_trino() -> None:
    metrics = [
        Column(
            name=f"metric of the shop, number {i}", family=Family.DECIMAL, native="decimal(20,4)", precision=20, scale=4
        )
        for i in range(50)
    ]
    table = Table(path=("catalog", "schema", "table"), columns=tuple(metrics))
    query = arm_sums(dialect=Dialect.TRINO, table=table, id_column=id_column(), metrics=metrics, clustered=True)
    # Both are written as literals into one EXECUTE IMMEDIATE, where quotation marks are doubled.
    assert len(query.sql) + query.sql.count("'") + limits(Dialect.TRINO).bytes + 100 < 1_000_000


def test_many_chunks_give_the_sums_of_one(duck: DuckDB) -> None:
    ids = id_column()
    metric = Column(name="y", family=Family.DOUBLE, native="DOUBLE")
    table = Table(path=("t",), columns=(ids, metric))
    duck.connection.execute("CREATE TABLE t AS SELECT i AS id, 1e6 + sin(i) AS y FROM range(300000) AS r(i)")
    query = arm_sums(dialect=Dialect.DUCKDB, table=table, id_column=ids, metrics=[metric], clustered=False)
    rows: list[Pair] = [(str(i), i % 2, None) for i in range(MANY)]
    whole = moments(duck.connection, query.sql, encode(rows))
    parts: dict[int, tuple[int, Fraction, Fraction]] = {}
    for chunk in chunks(rows, limits(Dialect.DUCKDB)):
        for arm, (n, total, squares) in moments(duck.connection, query.sql, chunk.parameter).items():
            before = parts.get(arm, (0, Fraction(0), Fraction(0)))
            parts[arm] = (before[0] + n, before[1] + total, before[2] + squares)
    assert set(parts) == set(whole) == {0, 1}
    for arm in whole:
        assert parts[arm][0] == whole[arm][0] == MANY // 2
        assert float(parts[arm][1] / parts[arm][0]) == pytest.approx(float(whole[arm][1] / whole[arm][0]), rel=1e-12)
        assert deviance(parts[arm]) == pytest.approx(deviance(whole[arm]), rel=1e-12)
        assert math.isclose(deviance(whole[arm]), MANY / 4, rel_tol=1e-4)


def moments(
    connection: duckdb.DuckDBPyConnection, sql: str, parameter: str
) -> dict[int, tuple[int, Fraction, Fraction]]:
    """n, sum and sum of squares, all exact from the centre on, so that chunks are added without a merge of our own."""
    result = {}
    for arm, _, n, centre, dev, squares, *_ in connection.execute(sql, [parameter]).fetchall():
        c, d, s = Fraction(centre), Fraction(dev), Fraction(squares)
        result[arm] = (n, n * c + d, s + 2 * c * d + n * c * c)
    return result


def deviance(sums: tuple[int, Fraction, Fraction]) -> float:
    n, total, squares = sums
    return float(squares - total**2 / n)
