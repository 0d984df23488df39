"""Fixtures for pytest: ``pytest_plugins = ["taskqueue.testing.pytest_plugin"]`` in the project's ``conftest.py``.

Models are imported by the fixtures, since a plugin may be loaded before Django is set up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from taskqueue.testing import CapturedEvents, RunningWorker


@pytest.fixture
def task_worker(transactional_db: None) -> Iterator[RunningWorker]:
    """A real worker in threads beside the test, which then has real transactions."""
    from taskqueue.testing import running_worker

    with running_worker() as worker:
        yield worker


@pytest.fixture
def task_events() -> Iterator[CapturedEvents]:
    """The queue's events while the test runs."""
    from taskqueue.testing import capture_events

    with capture_events() as heard:
        yield heard


@pytest.fixture
def immediate_tasks() -> Iterator[None]:
    """What the test enqueues runs when its transaction is committed."""
    from taskqueue.testing import immediate

    with immediate():
        yield
