"""What is registered by a test ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.tasks.signals import task_enqueued, task_finished, task_started

from taskqueue.handlers import registry

type Heard = list[tuple[str, type, Any]]


@pytest.fixture(autouse=True)
def registered_before() -> Iterator[None]:
    before = dict(registry.handlers)
    yield
    for task_type in set(registry.handlers) - set(before):
        registry.remove(task_type)


@pytest.fixture
def signals() -> Iterator[Heard]:
    """Name, sender and result's status of each of Django's signals about tasks."""
    heard: Heard = []
    receivers = []
    for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

        def hear(sender: type, task_result: Any, name: str = name, **_: Any) -> None:
            heard.append((name, sender, task_result.status))

        signal.connect(hear)
        receivers.append((signal, hear))
    yield heard
    for signal, hear in receivers:
        signal.disconnect(hear)
