"""Tasks in any state, as a worker would have left them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from taskqueue.models import Task

_NOW = datetime.now(UTC)
_STATES: dict[str, dict[str, Any]] = {
    "due": {},
    "scheduled": {"embargo_until": _NOW + timedelta(days=1)},
    "retrying": {"retry_count": 2, "attempt": 2, "embargo_until": _NOW + timedelta(minutes=1)},
    "running": {
        "status": "running",
        "attempt": 1,
        "worker_id": "w",
        "lease_until": _NOW + timedelta(minutes=1),
        "started_at": _NOW,
    },
    "success": {"status": "success", "attempt": 1, "finished_at": _NOW, "started_at": _NOW},
    "dead": {"status": "dead", "attempt": 11, "retry_count": 10, "finished_at": _NOW, "message": "it failed"},
    "dead_lettered": {"status": "dead_lettered", "attempt": 1, "finished_at": _NOW},
}
STATES = tuple(_STATES)


def task_in(state: str, **values: Any) -> Task:
    """A task in this state, read back from the database."""
    made = Task.objects.create(**{"task_type": "test.noop", "payload": {"n": 1}, **_STATES[state], **values})
    return Task.objects.get(pk=made.pk)
