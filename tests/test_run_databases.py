"""Test runs keep apart, and clean up after those that were killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import connection

from tests.support import run_databases


def databases() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        return {name for (name,) in cursor.fetchall()}


@pytest.fixture
def pid_of_the_past() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(timeout=30)
    return process.pid


@pytest.fixture
def left_behind(pid_of_the_past: int, transactional_db: None) -> Iterator[str]:
    name = run_databases.name_for(pid_of_the_past)
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    yield name
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def test_this_run_has_a_database_named_after_its_process(db: None) -> None:
    assert re.fullmatch(rf"test_xngin_{os.getpid()}(_gw\d+)?", connection.settings_dict["NAME"])


def test_the_database_of_a_killed_run_goes_and_those_in_use_stay(left_behind: str) -> None:
    assert left_behind in databases()
    with connection._nodb_cursor() as cursor:
        run_databases.drop_left_behind(cursor)
    assert left_behind not in databases()
    assert connection.settings_dict["NAME"] in databases()
