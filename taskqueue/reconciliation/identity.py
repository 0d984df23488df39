"""Which database and which schema a report or a plan is of, so that a plan is never applied to another one."""

import hashlib
from collections.abc import Iterable
from typing import Any

from django.db import connections

_DATABASE = "SELECT current_database(), (SELECT oid::bigint FROM pg_database WHERE datname = current_database())"
# Not everybody may ask for it on every service.
_SYSTEM = (
    "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')"
    " THEN (SELECT system_identifier::text FROM pg_control_system()) END"
)
_SCHEMA = "SELECT app, max(name) FROM django_migrations WHERE app = ANY(%s) GROUP BY app ORDER BY app"


def database_identity(alias: str) -> str:
    """The same for the same database of the same server only; tells nothing of either."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_DATABASE)
        parts: list[Any] = list(cursor.fetchone() or ())
        cursor.execute(_SYSTEM)
        parts += cursor.fetchone() or ()
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def schema_version(alias: str, apps: Iterable[str]) -> dict[str, str]:
    """The last migration of each app. Empty where migrations are not recorded."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations') IS NOT NULL")
        if cursor.fetchone() != (True,):
            return {}
        cursor.execute(_SCHEMA, [list(apps)])
        return dict(cursor.fetchall())
