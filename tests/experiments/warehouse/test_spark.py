"""The SQL of Spark run by Spark itself, where ``pyspark`` (the extra ``spark``) and Java are installed."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import shutil
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.identifiers import id_rule
from experiments.warehouse.outcomes import OutcomeRow
from experiments.warehouse.pairs import Pair, encode
from experiments.warehouse.query import Query, arm_sums, outcomes
from experiments.warehouse.sums import MetricSums

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None, reason="pyspark, the extra «spark», is not installed"
    ),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # those of pyspark and of the files it leaves to the garbage collector
    pytest.mark.timeout(300),
]

ID = Column(name="user`id;", family=Family.INTEGER, native="bigint")
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    builder = importlib.import_module("pyspark.sql").SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.WARNING)  # else it tells of closed connections after the end of the run
    yield session
    session.stop()


def create(spark: Any, table: Table, rows: Sequence[Sequence[object]]) -> None:
    """A view whose columns have the native types; CHAR is how a table shows it, as text padded with blanks."""
    types = ["string" if column.native.startswith("char") else column.native for column in table.columns]
    schema = ", ".join(f"c{i} {kind}" for i, kind in enumerate(types))
    spark.createDataFrame([tuple(row) for row in rows], schema).createOrReplaceTempView("plain")
    columns = ", ".join(f"c{i} AS {_quoted(column.name)}" for i, column in enumerate(table.columns))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_quoted(table.path[-1])} AS SELECT {columns} FROM plain")  # noqa: S608


def run[Row](spark: Any, query: Query[Row], pairs: Sequence[Pair]) -> tuple[Row, ...]:
    return query.parse(tuple(row) for row in spark.sql(query.sql, args={"pairs": encode(pairs)}).collect())


def sums_of(spark: Any, metric: Column, rows: Sequence[Sequence[object]]) -> MetricSums:
    table = Table(path=("a `view`",), columns=(ID, metric))
    create(spark, table, rows)
    query = arm_sums(dialect=Dialect.SPARK, table=table, id_column=ID, metrics=[metric], clustered=False)
    (group,) = run(
        spark, query, [(str(row[0]), 1, None) for row in {row[0]: row for row in rows if row[0] is not None}.values()]
    )
    return group.metrics[0]


def test_doubles_keep_their_digits_and_non_finite_ones_are_kept_out(spark: Any) -> None:
    metric = Column(name="größe %", family=Family.DOUBLE, native="double")
    values = [1e12 + 0.1, 1e12 + 0.3, NAN, INFINITY, -INFINITY, None]
    sums = sums_of(spark, metric, [*enumerate(values), (None, 5.0)])
    assert (sums.n, sums.n_non_finite, sums.n_null, sums.n_duplicate) == (2, 3, 1, 0)
    assert sums.centre == pytest.approx(1e12 + 0.2, abs=1e-3)
    difference = values[1] - values[0]  # type: ignore[operator]
    assert sums.sum_sq_dev - sums.sum_dev**2 / 2 == pytest.approx(difference**2 / 2, rel=1e-12)


def test_integers_and_decimals_are_subtracted_exactly(spark: Any) -> None:
    integer = Column(name="y", family=Family.INTEGER, native="bigint")
    sums = sums_of(spark, integer, [(1, 2**63 - 1), (2, 2**63 - 3)])
    assert (sums.centre, sums.sum_dev, sums.sum_sq_dev) == (2**63 - 2, 0.0, 2.0)
    both_ends = sums_of(spark, integer, [(1, 2**63 - 1), (2, -(2**63))])
    assert (both_ends.n, both_ends.overflow) == (2, False)
    decimal = Column(name="y", family=Family.DECIMAL, native="decimal(38,10)", precision=38, scale=10)
    top = Decimal("99999999999999999999999999.0000000001")
    sums = sums_of(spark, decimal, [(1, top), (2, -top), (3, Decimal(0))])
    assert (sums.n, sums.overflow) == (3, False)
    assert abs(float(sums.centre or 0) + sums.sum_dev / 3) < 1e11
    sums = sums_of(spark, decimal, [(1, Decimal("5.0000000001")), (2, Decimal("5.0000000003"))])
    assert sums.centre == Decimal("5.0000000002")
    assert sums.sum_sq_dev == pytest.approx(2e-20)
    assert sums_of(spark, decimal, [(1, Decimal(10) ** 27), (2, Decimal(1))]).overflow


def test_booleans_duplicates_and_too_large_values_are_counted(spark: Any) -> None:
    flag = Column(name="y", family=Family.BOOLEAN, native="boolean")
    sums = sums_of(spark, flag, [(1, True), (2, False), (2, False), (3, True), (3, False), (4, None)])
    assert (sums.n, sums.n_null, sums.n_duplicate, sums.centre) == (2, 1, 1, 1)
    double = Column(name="y", family=Family.DOUBLE, native="double")
    sums = sums_of(spark, double, [(1, 1e308), (2, 1.0), (3, NAN), (3, INFINITY), (4, NAN), (4, 1.0)])
    assert (sums.n, sums.n_non_finite, sums.n_duplicate, sums.overflow) == (2, 1, 1, True)


def test_clusters_have_their_own_rows(spark: Any) -> None:
    metric = Column(name="y", family=Family.DOUBLE, native="double")
    table = Table(path=("step_sent",), columns=(ID, metric))
    create(spark, table, [(i, float(i)) for i in range(4)])
    query = arm_sums(dialect=Dialect.SPARK, table=table, id_column=ID, metrics=[metric], clustered=True)
    groups = run(spark, query, [("0", 1, 5), ("1", 1, 2**40), ("2", 1, 5), ("3", 2, 5), ("7", 2, 5)])
    assert sorted((group.arm, group.cluster, group.n_found, group.metrics[0].centre) for group in groups) == [
        (1, 5, 2, 1.0),
        (1, 2**40, 1, 1.0),
        (2, 5, 1, 3.0),
    ]


@pytest.mark.parametrize(
    ("column", "held", "expected"),
    [
        (ID, [42, -42], ["-42", "42"]),
        (Column(name="id", family=Family.TEXT, native="string"), ["42", " 42", "it's 😀"], [" 42", "42", "it's 😀"]),
        (Column(name="id", family=Family.TEXT, native="char(4)"), ["42  ", "abc "], ["42", "abc"]),
        (Column(name="id", family=Family.DOUBLE, native="double"), [42.0, NAN], ["42"]),
        (
            Column(name="id", family=Family.DECIMAL, native="decimal(20,0)", precision=20, scale=0),
            [Decimal(42)],
            ["42"],
        ),
    ],
    ids=["bigint", "string", "char", "double", "decimal"],
)
def test_ids_match_in_every_type(spark: Any, column: Column, held: Sequence[object], expected: list[str]) -> None:
    metric = Column(name="y", family=Family.TEXT, native="string")
    table = Table(path=("t",), columns=(column, metric))
    create(spark, table, [(value, "x" * 300) for value in held])
    texts = ["42", "042", " 42", "42 ", "4.2e1", "-42", "abc", "it's 😀", str(2**63), "", "NaN"]
    sent = [canonical for text in texts if (canonical := id_rule(column).canonical(text)) is not None]
    query = outcomes(dialect=Dialect.SPARK, table=table, id_column=column, outcome=metric)
    found = run(spark, query, [(text, 1, None) for text in sent])
    assert sorted(row.participant for row in found) == expected
    assert found[0] == OutcomeRow(
        participant=found[0].participant, n_rows=1, value="x" * 200, agreed=True, non_finite=False
    )


def test_a_chunk_of_full_size_is_taken(spark: Any) -> None:
    metric = Column(name="y", family=Family.DOUBLE, native="double")
    table = Table(path=("many",), columns=(ID, metric))
    numbers = f"SELECT id AS {_quoted(ID.name)}, double(id) AS y FROM range(30000)"  # noqa: S608
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW many AS {numbers}")
    query = arm_sums(dialect=Dialect.SPARK, table=table, id_column=ID, metrics=[metric], clustered=False)
    (group,) = run(spark, query, [(str(i), 1, None) for i in range(25_000)])
    assert (group.n_found, group.metrics[0].centre) == (25_000, 12_499.5)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
