"""What tests of deliveries share."""

from __future__ import annotations

import pytest

from taskqueue.handlers import TaskContext
from taskqueue.webhook.delivery import Courier
from tests.support.deliveries import context_of, courier_of


@pytest.fixture
def context() -> TaskContext:
    return context_of()


@pytest.fixture
def courier() -> Courier:
    return courier_of()
