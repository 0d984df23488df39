"""What an operator learns of a datasource: that it answers and what is there, or what is wrong and what to do."""

from __future__ import annotations

import json
from io import StringIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django.fixtures import Settings

from tests.support.experiments import make_datasource

pytestmark = pytest.mark.django_db


@pytest.fixture
def datasource(settings: Settings, tmp_path: Path) -> str:
    settings.EXPERIMENTS = {**settings.EXPERIMENTS, "DUCKDB_FOLDER": tmp_path}
    with duckdb.connect(str(tmp_path / "w.duckdb")) as made:
        made.execute("""CREATE TABLE "the orders" (id UUID, paid BOOLEAN, "spent €" DECIMAL(10, 2), seen TIMESTAMP)""")
        made.execute("CREATE VIEW recent AS SELECT 1 AS one")
    return make_datasource(config={"type": "duckdb", "path": "w.duckdb"}).pk


def check(*arguments: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("check_datasource", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def report(*arguments: str) -> tuple[int, Any]:
    status, out, err = check(*arguments, "--json")
    assert err == ""
    return status, json.loads(out)


def test_it_lists_the_tables(datasource: str) -> None:
    status, out, _ = check(datasource)
    assert status == 0
    assert out.splitlines() == [
        f"{datasource} answers (duckdb).",
        "Tables that it may read: 2",
        "  recent",
        "  the orders",
    ]


def test_it_lists_the_columns_of_a_table_and_what_they_are_good_for(datasource: str) -> None:
    status, out, _ = check(datasource, "--table", "THE ORDERS")
    assert status == 0
    assert out.splitlines()[1:] == [
        "Columns of main.the orders:",
        "  id  UUID  (participants' ids)",
        "  paid  BOOLEAN  (metric)",
        "  spent €  DECIMAL(10,2)  (metric or participants' ids)",
        "  seen  TIMESTAMP  (neither metric nor ids)",
    ]


def test_names_do_not_steer_the_terminal(datasource: str, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "w.duckdb")) as made:
        made.execute('CREATE TABLE "a\x1b[31m\nb" ("c\x07" INTEGER)')
    assert "  'a\\x1b[31m\\nb'" in check(datasource)[1].splitlines()
    _, out, _ = check(datasource, "--table", "a\x1b[31m\nb")
    assert out.splitlines()[1:] == [
        "Columns of 'main.a\\x1b[31m\\nb':",
        "  'c\\x07'  INTEGER  (metric or participants' ids)",
    ]
    assert report(datasource)[1]["tables"][0] == "a\x1b[31m\nb"


def test_json_has_the_same(datasource: str) -> None:
    assert report(datasource) == (
        0,
        {"datasource": datasource, "ok": True, "engine": "duckdb", "tables": ["recent", "the orders"]},
    )
    status, found = report(datasource, "--table", "the orders")
    assert status == 0
    assert found["table"] == "main.the orders"
    assert found["columns"][1] == {"name": "paid", "type": "BOOLEAN", "use": "metric"}


def test_a_missing_table_is_told_with_those_that_exist(datasource: str) -> None:
    status, out, err = check(datasource, "--table", "ordres")
    assert (status, out) == (1, "")
    assert "there is no table 'ordres'" in err
    assert "'the orders'" in err
    assert "What to do: " in err
    status, found = report(datasource, "--table", "ordres")
    assert status == 1
    assert found["ok"] is False
    assert found["problem"]["code"] == "table_missing"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "no_warehouse"),
        ({"type": "duckdb"}, "config_invalid"),
        ({"type": "duckdb", "path": "absent.duckdb"}, "connection_failed"),
        ({"type": "duckdb", "path": "../w.duckdb"}, "address_refused"),
        ({"type": "postgresql", "host": "127.0.0.1", "database": "d", "user": "u"}, "address_refused"),
        (
            {"type": "postgresql", "host": "h", "database": "d", "user": "u", "password": {"encrypted": "x"}},
            "secret_undecryptable",
        ),
    ],
)
def test_each_fault_has_a_code_and_advice(datasource: str, config: dict[str, Any], code: str) -> None:
    status, found = report(make_datasource(config=config).pk)
    assert status == 1
    assert found["problem"]["code"] == code
    assert found["problem"]["advice"]


def test_a_wrong_password_is_not_told(settings: Settings, datasource: str) -> None:
    settings.EXPERIMENTS = {**settings.EXPERIMENTS, "DATASOURCE_ALLOWED_NETWORKS": [ip_network("127.0.0.0/8")]}
    there = connection.get_connection_params()
    row = make_datasource(
        config={
            "type": "postgresql",
            "host": there["host"],
            "port": int(there["port"]),
            "database": there["dbname"],
            "user": "nobody_here",
            "password": "hidden-password",
            "sslmode": "disable",
        }
    )
    status, out, err = check(row.pk)
    assert status == 1
    assert "connection_failed" in err
    assert "hidden-password" not in out + err


def test_an_unknown_datasource_ends_with_1() -> None:
    status, _, err = check("ds_absent")
    assert status == 1
    assert "there is no datasource 'ds_absent'" in err
