"""Several statements that must see the same state of our tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def one_view() -> Iterator[None]:
    """A short read-only transaction whose statements all see one instant.

    Within a transaction of the caller's it is that one's view, since the isolation cannot change any more.
    """
    nested = connection.in_atomic_block
    with transaction.atomic():
        if not nested:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
