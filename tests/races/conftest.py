"""Several sessions of the queue, whose rows are really committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sessions import Connect, sessions


@pytest.fixture
def connect(transactional_db: None) -> Iterator[Connect]:
    with sessions() as connect:
        yield connect
