"""Callers who enqueue with the same dedupe keys at the same moment."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from django.db import connection, transaction

from taskqueue.database import Database
from taskqueue.models import Task
from taskqueue.operations import NewTask, enqueue_many

_SECONDS = 20.0
_WAITS = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"


@pytest.mark.django_db(transaction=True)
def test_two_callers_with_the_same_keys_in_opposite_order_both_succeed() -> None:
    ids: list[list[str]] = []

    def enqueue_backwards() -> None:
        try:
            ids.append(enqueue_many([NewTask(task_type="test", dedupe_key=key) for key in ("b", "a")]))
        finally:
            connection.close()

    with transaction.atomic(), closing(Database(name="race").open("watcher")) as watcher:
        first = enqueue_many([NewTask(task_type="test", dedupe_key="a")])
        other = threading.Thread(target=enqueue_backwards)
        other.start()
        pause = threading.Event()
        for _ in range(int(_SECONDS / 0.02)):
            if watcher.execute(_WAITS).fetchone() == (True,):
                break
            pause.wait(0.02)
        first += enqueue_many([NewTask(task_type="test", dedupe_key="b")])
    other.join(_SECONDS)

    assert ids == [[first[1], first[0]]]
    assert Task.objects.count() == 2
