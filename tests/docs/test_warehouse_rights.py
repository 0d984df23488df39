"""The rights that the page about warehouses grants in PostgreSQL are enough to read, and not enough to write."""

from __future__ import annotations

import secrets

import psycopg
import pytest
from psycopg import errors

from experiments.errors import DatasourceError
from experiments.warehouse.config import parse_config
from experiments.warehouse.opening import open_warehouse
from tests.docs.pages import ROOT, blocks_of
from tests.support.warehouses import PostgreSQLSchema


@pytest.mark.django_db
def test_the_role_of_the_page_reads_and_does_not_write() -> None:
    (block,) = [
        block for block in blocks_of(ROOT / "docs" / "warehouses.md") if "ALTER DEFAULT PRIVILEGES" in block.code
    ]
    role = f"reader_{secrets.token_hex(4)}"
    server = PostgreSQLSchema()
    try:
        server.create("before", {"id": "INTEGER"}, [(1,)])
        statements = block.code.replace("experiments_reader", role).replace("shop", server.schema)
        for statement in filter(str.strip, statements.split(";")):
            server.execute(statement)
        server.create("after", {"id": "INTEGER"}, [(2,)])
        config = {**server.config, "user": role, "password": "choose one"}
        with open_warehouse(parse_config(config), rules=server.rules) as session:
            assert session.tables() == ("after", "before")
            assert session.fetch("SELECT * FROM after") == [(2,)]
            with pytest.raises(DatasourceError):
                session.fetch("DELETE FROM before")
        with (
            psycopg.connect(
                host=config["host"], port=config["port"], dbname=config["database"], user=role, password="choose one"
            ) as direct,
            pytest.raises(errors.InsufficientPrivilege),
        ):
            direct.execute("DELETE FROM before")
    finally:
        server.execute(f"DROP OWNED BY {role}")
        server.execute(f"DROP ROLE {role}")
        server.close()
