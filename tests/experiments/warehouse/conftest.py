"""The engines on which queries run for real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.query_engines import DuckDB, PostgreSQL, QueryEngine


@pytest.fixture(params=["duckdb", "postgresql"])
def engine(request: pytest.FixtureRequest, db: None) -> Iterator[QueryEngine]:
    if request.param == "duckdb":
        with closing(DuckDB()) as duck:
            yield duck
    else:
        with closing(PostgreSQL()) as postgres:
            yield postgres


@pytest.fixture
def postgres(db: None) -> Iterator[PostgreSQL]:
    with closing(PostgreSQL()) as opened:
        yield opened


@pytest.fixture
def duck() -> Iterator[DuckDB]:
    with closing(DuckDB()) as opened:
        yield opened
