"""What every test run shares: a database of its own, so that several runs may go on at once on one server."""

from __future__ import annotations

import os
import signal

import pytest
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from tests.support import run_databases

# A run in the background of a script has SIGINT ignored, and so would every program that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    connections.databases["default"]["TEST"]["NAME"] = run_databases.name_for(os.getpid())


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Before the run's database is made, those of killed runs go."""
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        run_databases.drop_left_behind(cursor)
