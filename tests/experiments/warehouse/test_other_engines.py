"""Engines whose drivers are extras: what they are told, what is asked of them, and what comes of their errors."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import pytest

from experiments.errors import DatasourceError
from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import parse_config
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits, Warehouse
from tests.support.drivers.fakes import FAKES, Backend, FakeError

_HERE = Rules(allowed_networks=(ip_network("127.0.0.0/8"),))
_CONFIGS: dict[str, dict[str, Any]] = {
    "bigquery": {
        "type": "bigquery",
        "project": "acme",
        "dataset": "shop",
        "credentials": {
            "type": "service_account",
            "project_id": "acme",
            "private_key_id": "1",
            "private_key": "hidden-secret",
            "client_email": "reader@acme.iam.gserviceaccount.com",
        },
    },
    "databricks": {
        "type": "databricks",
        "host": "dbc-1.cloud.databricks.com",
        "http_path": "/sql/1.0/warehouses/1",
        "access_token": "hidden-secret",
        "catalog": "acme",
        "schema": "shop",
    },
    "redshift": {"type": "redshift", "host": "127.0.0.1", "database": "d", "user": "u", "password": "hidden-secret"},
    "snowflake": {
        "type": "snowflake",
        "account": "acme-shop",
        "user": "u",
        "password": "hidden-secret",
        "warehouse": "w",
        "database": "d",
    },
    "spark": {"type": "spark", "host": "127.0.0.1", "token": "hidden-secret"},
    "trino": {
        "type": "trino",
        "host": "127.0.0.1",
        "user": "u",
        "password": "hidden-secret",
        "catalog": "c",
        "schema": "s",
    },
}
_PLACEHOLDERS = {"bigquery": "@pairs", "databricks": ":pairs", "spark": ":pairs"}
_MODULES = {
    "bigquery": "google.cloud.bigquery",
    "databricks": "databricks",
    "redshift": "redshift_connector",
    "snowflake": "snowflake",
    "spark": "pyspark",
    "trino": "trino",
}
# The vendor's own hosts are looked up, and there is no network here.
_AT_THE_VENDOR = {"databricks", "snowflake"}


@dataclass(frozen=True, kw_only=True)
class Engine:
    name: str
    backend: Backend

    def open(self, **limits: Any) -> Warehouse:
        return open_warehouse(parse_config(_CONFIGS[self.name]), rules=_rules(self.name), limits=Limits(**limits))

    @property
    def placeholder(self) -> str:
        return _PLACEHOLDERS.get(self.name, "?")


def _rules(name: str) -> Rules:
    return _Vendor(allowed_networks=_HERE.allowed_networks) if name in _AT_THE_VENDOR else _HERE


class _Vendor(Rules):
    """A name that leads to this machine, as a resolver would say."""

    def addresses_of(self, host: str) -> Any:
        assert host.endswith((".databricks.com", ".snowflakecomputing.com"))
        return super().addresses_of("127.0.0.1")


@pytest.fixture(params=sorted(FAKES))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    backend = Backend()
    for module in FAKES[request.param](backend):
        parts = module.__name__.split(".")
        for end in range(1, len(parts)):
            name = ".".join(parts[:end])
            if name not in sys.modules:
                monkeypatch.setitem(sys.modules, name, type(sys)(name))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield Engine(name=request.param, backend=backend)
    backend.interrupt()
    backend.duckdb.close()


@pytest.mark.parametrize("name", sorted(FAKES))
def test_a_missing_driver_says_how_to_install_it(name: str) -> None:
    if _is_installed(_MODULES[name]):
        pytest.skip(f"the driver of {name} is installed here")
    with pytest.raises(DatasourceError) as fault:
        open_warehouse(parse_config(_CONFIGS[name]), rules=_rules(name))
    assert fault.value.code == "driver_missing"
    assert f"pip install 'xngin-worker[{name}]'" in str(fault.value)
    assert f"uv sync --extra {name}" in str(fault.value)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_a_parameter_goes_to_the_placeholder_and_rows_come_back(engine: Engine) -> None:
    with engine.open() as warehouse:
        found = warehouse.fetch(f"SELECT {engine.placeholder} AS given, 0.1::DOUBLE", 'it\'s "so" \\ é %s :x @y ?')
        assert found == [('it\'s "so" \\ é %s :x @y ?', 0.1)]
        assert warehouse.fetch("SELECT 1 UNION ALL SELECT 2 ORDER BY 1") == [(1,), (2,)]
    assert engine.backend.closed


def test_the_secret_goes_to_the_driver_and_nowhere_else(engine: Engine) -> None:
    with engine.open() as warehouse:
        assert "hidden-secret" in repr({name: _shown(value) for name, value in engine.backend.connected.items()})
        assert "hidden-secret" not in repr(warehouse)
        assert not any("hidden-secret" in statement for statement in engine.backend.statements)


def _shown(value: object) -> object:
    return getattr(value, "secrets", value)


def test_an_error_is_told_without_the_secret(engine: Engine) -> None:
    with engine.open() as warehouse:
        engine.backend.fails_with = FakeError("no such thing for hidden-secret")
        with pytest.raises(DatasourceError) as fault:
            warehouse.fetch("SELECT 1")
    assert fault.value.code == "query_failed"
    assert "no such thing for ***" in str(fault.value)
    assert fault.value.__cause__ is None


def test_more_rows_than_the_limit_are_refused(engine: Engine) -> None:
    with engine.open(rows=3) as warehouse, pytest.raises(DatasourceError, match="more than 3 rows"):
        warehouse.fetch("SELECT * FROM range(10)")


def test_another_thread_cancels_the_query(engine: Engine) -> None:
    with engine.open() as warehouse:
        faults: list[DatasourceError] = []

        def ask() -> None:
            try:
                warehouse.fetch("SELECT 'wait for ever'")
            except DatasourceError as error:
                faults.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert engine.backend.running.wait(10)
        warehouse.cancel()
        asking.join(10)
        assert [fault.code for fault in faults] == ["cancelled"]
        with pytest.raises(DatasourceError) as refused:
            warehouse.fetch("SELECT 1")
        assert refused.value.code == "cancelled"


@pytest.mark.parametrize("name", ["redshift", "spark", "trino"])
def test_a_private_host_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in FAKES[name](Backend()):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(DatasourceError) as fault:
        open_warehouse(parse_config(_CONFIGS[name]), rules=Rules())
    assert fault.value.code == "address_refused"


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("redshift", {"ssl": True, "sslmode": "verify-full", "client_protocol_version": 2, "port": 5439}),
        ("snowflake", {"paramstyle": "qmark", "autocommit": True, "host": "acme-shop.snowflakecomputing.com"}),
        ("databricks", {"use_cloud_fetch": False, "catalog": "acme", "schema": "shop"}),
        ("trino", {"http_scheme": "https", "timezone": "UTC", "legacy_prepared_statements": False, "port": 443}),
        ("bigquery", {"project": "acme", "location": None}),
        ("spark", {"url": "sc://127.0.0.1:15002/;use_ssl=true;user_agent=xngin-worker;token=hidden-secret"}),
    ],
    indirect=["engine"],
)
def test_a_session_is_encrypted_and_in_utc(engine: Engine, expected: dict[str, Any]) -> None:
    with engine.open():
        assert {name: engine.backend.connected[name] for name in expected} == expected
