"""A real warehouse of each engine that runs here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.warehouses import DuckDBFile, PostgreSQLSchema, WarehouseServer


@pytest.fixture(params=["duckdb", "postgresql"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path, db: None) -> Iterator[WarehouseServer]:
    server: WarehouseServer = DuckDBFile(tmp_path) if request.param == "duckdb" else PostgreSQLSchema()
    yield server
    server.close()
