"""The database of one test run, named after its process, and those of runs that were killed."""

from __future__ import annotations

import contextlib
import os

from django.db import Error
from django.db.backends.utils import CursorWrapper
from psycopg import sql

_PREFIX = "test_xngin_"


def name_for(pid: int) -> str:
    return f"{_PREFIX}{pid}"


def drop_left_behind(cursor: CursorWrapper) -> None:
    """Drop the databases of runs whose process is gone. Those that somebody is connected to stay."""
    cursor.execute("SELECT datname FROM pg_database WHERE datname ~ %s ORDER BY 1", [f"^{_PREFIX}[0-9]+(_gw[0-9]+)?$"])
    for (name,) in cursor.fetchall():
        # Of several processes of one run each adds its own number to the name.
        if not _is_alive(int(name.removeprefix(_PREFIX).partition("_")[0])):
            # In use after all, or dropped by another run that starts at the same moment.
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
