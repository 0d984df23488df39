"""The queue's own sessions, whatever the database has by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from django.db import connection
from psycopg import sql

from taskqueue.database import Database

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def latin_by_default() -> Iterator[None]:
    """New sessions of this database speak another encoding unless they ask for theirs."""
    with connection.cursor() as cursor:
        name = sql.Identifier(str(connection.settings_dict["NAME"]))
        cursor.execute(sql.SQL("ALTER DATABASE {} SET client_encoding = 'LATIN1'").format(name))
        yield
        cursor.execute(sql.SQL("ALTER DATABASE {} RESET client_encoding").format(name))


@pytest.mark.parametrize("pgbouncer", [False, True])
def test_text_beyond_the_default_encoding_of_the_database_is_read_as_it_was_written(
    latin_by_default: None, pgbouncer: bool
) -> None:
    with closing(Database(pgbouncer=pgbouncer).open("test")) as session:
        assert session.execute("SELECT 'żółć 🦉'").fetchone() == ("żółć 🦉",)
        assert session.execute("SHOW client_encoding").fetchone() == ("UTF8",)
