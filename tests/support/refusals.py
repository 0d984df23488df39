"""What the database refuses, told by the name of the constraint or trigger that did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction


@contextmanager
def refused_by(constraint: str) -> Iterator[None]:
    """The block's statement fails, with exactly this constraint; the transaction around it goes on."""
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        yield
        # Foreign keys wait for the commit otherwise.
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    cause = refusal.value.__cause__
    assert isinstance(cause, psycopg.Error)
    assert cause.diag.constraint_name == constraint, str(cause)
