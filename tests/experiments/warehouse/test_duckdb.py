"""What is particular to DuckDB: one file is read, and nothing else of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import parse_config
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse
from tests.support.warehouses import DuckDBFile

_HOLDS = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


@pytest.fixture
def server(folder: Path) -> DuckDBFile:
    return DuckDBFile(folder)


def _refusal(code: str, folder: Path | None, path: str) -> str:
    with pytest.raises(DatasourceError) as fault:
        open_warehouse(parse_config({"type": "duckdb", "path": path}), rules=Rules(duckdb_folder=folder)).close()
    assert fault.value.code == code, str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM read_parquet('https://example.com/x.parquet')",
        "COPY (SELECT 1) TO '{outside}/stolen.csv'",
        "ATTACH '{outside}/other.duckdb'",
        "EXPORT DATABASE '{outside}/export'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SET threads = 64",
        "SET TimeZone = 'Europe/Berlin'",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CREATE TABLE warehouse.main.t (id INTEGER)",
        "SELECT getenv('HOME')",
        "SELECT * FROM limits",
    ],
)
def test_nothing_else_of_the_machine_is_reached(server: DuckDBFile, tmp_path: Path, statement: str) -> None:
    limits = [(1,)]  # A variable that a query must not find.
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    before = sorted(tmp_path.iterdir())
    with server.open() as session:
        with pytest.raises(DatasourceError) as fault:
            session.fetch(statement.format(outside=tmp_path))
        assert fault.value.code == "query_failed"
        assert session.fetch("SELECT current_setting('TimeZone')") == [("UTC",)]
    assert sorted(tmp_path.iterdir()) == before
    assert limits


@pytest.mark.parametrize(
    "path", ["../outside.duckdb", "/etc/passwd", ".", "..", "sub/../../outside.duckdb", "link.duckdb", "linked/x"]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(folder: Path, path: str) -> None:
    outside = folder.parent / "outside.duckdb"
    duckdb.connect(str(outside)).close()
    (folder / "sub").mkdir()
    (folder / "link.duckdb").symlink_to(outside)
    (folder / "linked").symlink_to(folder.parent)
    assert "XNGIN_DUCKDB_FOLDER" in _refusal("address_refused", folder, path)


def test_a_link_within_the_folder_is_followed(server: DuckDBFile, folder: Path) -> None:
    (folder / "current.duckdb").symlink_to(server.path)
    config = parse_config({"type": "duckdb", "path": "current.duckdb"})
    with open_warehouse(config, rules=server.rules) as session:
        assert session.fetch("SELECT 1") == [(1,)]


def test_without_a_folder_no_file_is_read() -> None:
    assert "XNGIN_DUCKDB_FOLDER" in _refusal("address_refused", None, "w.duckdb")


def test_a_file_that_is_not_there_is_not_made(folder: Path) -> None:
    for path in ("absent.duckdb", "ü" * 200, "a/" * 100 + "b"):
        assert f"there is no file {path!r}" in _refusal("connection_failed", folder, path)
    assert list(folder.iterdir()) == []


def test_a_file_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "text.duckdb").write_text("no database " * 1000)
    assert "'text.duckdb'" in _refusal("connection_failed", folder, "text.duckdb")


def test_a_file_that_another_process_writes_is_told(server: DuckDBFile, folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(server.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"held\n"
        said = _refusal("connection_failed", folder, server.path.name)
        assert "lock" in said
        assert server.path.name in said
        assert str(folder) not in said
        writer.communicate()
    with server.open() as session:
        assert session.fetch("SELECT 1") == [(1,)]


def test_a_name_with_an_apostrophe_is_a_file_and_no_statement(folder: Path) -> None:
    name = "o'clock' (TYPE x); --.duckdb"
    duckdb.connect(str(folder / name)).close()
    with open_warehouse(parse_config({"type": "duckdb", "path": name}), rules=Rules(duckdb_folder=folder)) as session:
        assert session.fetch("SELECT 1") == [(1,)]


def test_a_query_that_needs_too_much_memory_fails_and_the_session_goes_on(server: DuckDBFile) -> None:
    with server.open(Limits(memory_megabytes=50)) as session:
        with pytest.raises(DatasourceError, match=r"[Mm]emory") as fault:
            session.fetch("SELECT x, count(*) FROM range(20000000) AS a(x) GROUP BY x ORDER BY hash(x)")
        assert fault.value.code == "query_failed"
        assert session.fetch("SELECT 1") == [(1,)]


def test_a_view_of_an_external_file_is_refused(server: DuckDBFile, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    server.execute(f"CREATE VIEW stolen AS SELECT * FROM read_csv('{tmp_path}/other.csv')")  # noqa: S608
    with server.open() as session, pytest.raises(DatasourceError):
        session.fetch("SELECT * FROM stolen")


def test_tables_of_other_schemas_are_named_with_them(server: DuckDBFile) -> None:
    server.execute("CREATE SCHEMA sales")
    server.execute("CREATE TABLE sales.orders (id INTEGER)")
    server.create("people", {"id": "INTEGER"})

    def described(session: Warehouse, name: str) -> tuple[str, ...]:
        return session.describe(name).path

    with server.open() as session:
        assert session.tables() == ("people", "sales.orders")
        assert described(session, "orders") == described(session, "sales.orders") == ("sales", "orders")


def test_two_sessions_read_one_file_at_once(server: DuckDBFile) -> None:
    server.create("t", {"id": "INTEGER"}, [(1,)])
    with server.open() as first, server.open() as second:
        first.cancel()
        assert second.fetch("SELECT * FROM t") == [(1,)]
