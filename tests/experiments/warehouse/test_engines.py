"""What every engine promises, whatever its driver: digits, limits, refusals, and sessions that end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Family
from experiments.warehouse.names import find_column
from experiments.warehouse.session import Limits, Warehouse
from tests.support.warehouses import WarehouseServer

_DEADLINE = 20.0
_SLOW = {
    "duckdb": "SELECT count(*) FROM range(100000000000) AS a(x) WHERE x % 7 = 3 AND hash(x) % 11 = 5",
    "postgresql": "SELECT 1 FROM pg_sleep(60)",
}
_PARAMETER = {"duckdb": "SELECT CAST(? AS VARCHAR)", "postgresql": "SELECT CAST($1 AS TEXT)"}
_NATIVE = {
    "id": "BIGINT",
    "small": "SMALLINT",
    "exact": "DECIMAL(30, 10)",
    "ratio": "DOUBLE PRECISION",
    "single": "REAL",
    "flag": "BOOLEAN",
    "word": "VARCHAR",
    "key": "UUID",
    "day": "DATE",
}
_KEY = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


@pytest.fixture
def session(warehouse: WarehouseServer) -> Iterator[Warehouse]:
    with warehouse.open() as opened:
        yield opened


def _numbers(warehouse: WarehouseServer) -> None:
    warehouse.create("numbers", {"id": "BIGINT"}, [(1,), (2,), (3,)])


def _fails(code: str, session: Warehouse, statement: str) -> DatasourceError:
    with pytest.raises(DatasourceError) as fault:
        session.fetch(statement)
    assert fault.value.code == code, str(fault.value)
    return fault.value


def test_columns_are_described_by_family_and_digits(warehouse: WarehouseServer) -> None:
    warehouse.create("every type", _NATIVE)
    with warehouse.open() as session:
        assert session.tables() == ("every type",)
        columns = {column.name: column for column in session.describe("every type").columns}
    assert list(columns) == list(_NATIVE)
    assert {name: column.family for name, column in columns.items()} == {
        "id": Family.INTEGER,
        "small": Family.INTEGER,
        "exact": Family.DECIMAL,
        "ratio": Family.DOUBLE,
        "single": Family.DOUBLE,
        "flag": Family.BOOLEAN,
        "word": Family.TEXT,
        "key": Family.UUID,
        "day": Family.OTHER,
    }
    assert (columns["exact"].precision, columns["exact"].scale) == (30, 10)
    assert (columns["id"].precision, columns["id"].scale) == (None, None)


@pytest.mark.parametrize(
    ("native", "values"),
    [
        ("BIGINT", [9_007_199_254_740_993, -(2**63), 2**63 - 1, 0, None]),
        ("DECIMAL(38, 10)", [Decimal("1234567890123456789012345678.0123456789"), Decimal("1E-10"), None]),
        ("DOUBLE PRECISION", [0.1 + 0.2, 1e308, 5e-324, -0.0, math.inf, -math.inf, 1e12 + 0.1, None]),
        ("BOOLEAN", [True, False, None]),
        ("VARCHAR", ["größe 😀", "", " blanks ", "o'clock", 'a"b\\c', None]),
        ("UUID", [_KEY, None]),
    ],
)
def test_every_digit_comes_back(warehouse: WarehouseServer, native: str, values: list[Any]) -> None:
    warehouse.create("t", {"n": "INTEGER", "v": native}, list(enumerate(values)))
    with warehouse.open() as session:
        rows = session.fetch("SELECT v FROM t ORDER BY n")
    assert [row[0] for row in rows] == values
    assert [type(row[0]) for row in rows] == [type(value) for value in values]


def test_not_a_number_is_data(warehouse: WarehouseServer) -> None:
    warehouse.create("t", {"v": "DOUBLE PRECISION"}, [(math.nan,)])
    with warehouse.open() as session:
        ((value,),) = session.fetch("SELECT v FROM t")
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    "text",
    ["", "'; DROP TABLE t; --", '[{"p":"größe \\" 😀","a":1}]', "$1 ? %s %(x)s :pairs", "x" * 3_000_000],
    ids=["empty", "injection", "json", "placeholders", "3 MB"],
)
def test_the_parameter_arrives_as_it_is(warehouse: WarehouseServer, session: Warehouse, text: str) -> None:
    assert session.fetch(_PARAMETER[warehouse.engine], text) == [(text,)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO numbers VALUES (4)",
        "UPDATE numbers SET id = 0",
        "DELETE FROM numbers",
        "DROP TABLE numbers",
        "CREATE TABLE another (id INTEGER)",
        "ALTER TABLE numbers ADD COLUMN another INTEGER",
    ],
)
def test_nothing_is_written(warehouse: WarehouseServer, statement: str) -> None:
    _numbers(warehouse)
    with warehouse.open() as session:
        with pytest.raises(DatasourceError) as fault:
            session.fetch(statement)
        assert fault.value.code in ("query_failed", "permission_denied")
    with warehouse.open() as session:
        assert session.tables() == ("numbers",)
        assert session.fetch("SELECT * FROM numbers ORDER BY 1") == [(1,), (2,), (3,)]


def test_a_query_that_takes_too_long_is_stopped_and_the_next_one_runs(warehouse: WarehouseServer) -> None:
    with warehouse.open(Limits(statement_seconds=0.3)) as session:
        before = time.monotonic()
        _fails("timeout", session, _SLOW[warehouse.engine])
        assert time.monotonic() - before < _DEADLINE / 2
        assert session.fetch("SELECT 1") == [(1,)]


def test_a_query_is_cancelled_from_another_thread(warehouse: WarehouseServer) -> None:
    with warehouse.open() as session:
        timer = threading.Timer(0.2, session.cancel)
        timer.start()
        before = time.monotonic()
        _fails("cancelled", session, _SLOW[warehouse.engine])
        assert time.monotonic() - before < _DEADLINE / 2
        timer.join()
        _fails("cancelled", session, "SELECT 1")


def test_a_session_that_is_cancelled_while_idle_begins_no_query(session: Warehouse) -> None:
    session.cancel()
    session.cancel()
    _fails("cancelled", session, "SELECT 1")


def test_after_a_query_that_failed_the_next_one_runs(session: Warehouse) -> None:
    for statement in ("SELECT 1 FROM absent", "SELEC 1", "SELECT CAST('x' AS INTEGER)"):
        assert _fails("query_failed", session, statement)
    assert session.fetch("SELECT 1") == [(1,)]


def test_more_rows_than_allowed_are_refused_before_they_are_read(warehouse: WarehouseServer) -> None:
    endless = {
        "duckdb": "SELECT * FROM range(100000000000)",
        "postgresql": "SELECT generate_series(1, 100000000000)",
    }
    with warehouse.open(Limits(rows=1000)) as session:
        assert "1,000 rows" in str(_fails("query_failed", session, endless[warehouse.engine]))
        assert session.fetch("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    "name",
    ["select", "Two Words", 'quo"te', "it's", "a.b", "größe 😀", "100% $1 ? :x", "new\nline", "back\\slash`tick"],
)
def test_any_name_is_found_and_read(warehouse: WarehouseServer, name: str) -> None:
    warehouse.create(name, {name: "INTEGER", "id": "INTEGER"}, [(1, 2)])
    with warehouse.open() as session:
        assert session.tables() == (name,)
        table = session.describe(name)
        assert [column.name for column in table.columns] == [name, "id"]
        assert find_column(table, name).family is Family.INTEGER
        path = ".".join('"' + part.replace('"', '""') + '"' for part in table.path)
        assert session.fetch(f"SELECT * FROM {path}") == [(1, 2)]  # noqa: S608


def test_a_view_is_read_like_a_table(warehouse: WarehouseServer) -> None:
    _numbers(warehouse)
    warehouse.execute("CREATE VIEW seen AS SELECT id * 2 AS doubled FROM numbers")
    with warehouse.open() as session:
        assert set(session.tables()) == {"numbers", "seen"}
        (column,) = session.describe("seen").columns
    assert (column.name, column.family) == ("doubled", Family.INTEGER)


def test_a_table_made_meanwhile_is_there_for_the_next_session(warehouse: WarehouseServer) -> None:
    with warehouse.open() as session:
        with pytest.raises(DatasourceError) as fault:
            session.describe("numbers")
        assert fault.value.code == "table_missing"
    _numbers(warehouse)
    with warehouse.open() as session:
        assert session.describe("NUMBERS").path[-1] == "numbers"


def test_sessions_in_several_threads_do_not_meet(warehouse: WarehouseServer) -> None:
    _numbers(warehouse)
    barrier = threading.Barrier(3)

    def read(number: int) -> list[tuple[object, ...]]:
        with warehouse.open() as session:
            barrier.wait(_DEADLINE)
            if number == 0:
                session.cancel()
                return []
            return session.fetch("SELECT count(*) FROM numbers")

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(read, range(3))) == [[], [(3,)], [(3,)]]


def test_a_session_goes_from_thread_to_thread(session: Warehouse) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(session.fetch, "SELECT 1").result(_DEADLINE) == [(1,)]
    assert session.fetch("SELECT 2") == [(2,)]


def test_a_session_closes_at_once_and_twice(warehouse: WarehouseServer) -> None:
    session = warehouse.open()
    before = time.monotonic()
    session.close()
    session.close()
    assert time.monotonic() - before < 1
    with pytest.raises(DatasourceError):
        session.fetch("SELECT 1")


def test_no_thread_is_left_behind(warehouse: WarehouseServer) -> None:
    before = threading.active_count()
    with warehouse.open(Limits(statement_seconds=0.1)) as session:
        _fails("timeout", session, _SLOW[warehouse.engine])
        session.fetch("SELECT 1")
    assert threading.active_count() == before


def test_the_session_is_in_utc(session: Warehouse) -> None:
    ((text,),) = session.fetch("SELECT CAST(CAST('2027-01-01 12:00:00+00' AS TIMESTAMPTZ) AS VARCHAR)")
    assert str(text) == "2027-01-01 12:00:00+00"
