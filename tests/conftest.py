"""What every test run shares: a database of its own, so that several runs may go on at once on one server."""

from __future__ import annotations

import contextlib
import os
import re

import pytest
from django.db import Error, connection, connections
from psycopg import sql

_PREFIX = "test_xngin_"


def pytest_configure() -> None:
    connections.databases["default"].setdefault("TEST", {})["NAME"] = f"{_PREFIX}{os.getpid()}"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Before the run's database is made, those of runs that were killed are dropped."""
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname ~ %s", [f"^{_PREFIX}[0-9]+$"])
        for (name,) in cursor.fetchall():
            if not _is_alive(int(re.sub(r"\D", "", name))):
                # In use after all, or dropped by another run that starts right now.
                with contextlib.suppress(Error):
                    cursor.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
