"""An attempt's context, and a courier that reaches loopback and does not wait long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

from taskqueue.handlers import TaskContext
from taskqueue.outbound.exchange import Exchange
from taskqueue.webhook.delivery import Courier
from taskqueue.webhook.fairness import Destinations

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def context_of(**changes: Any) -> TaskContext:
    values: dict[str, Any] = {
        "id": "task_0123",
        "task_type": "webhook.outbound",
        "attempt": 1,
        "retry_count": 0,
        "correlation_id": "7d0c3c0e-order-42",
        "deadline": datetime.now(UTC) + timedelta(seconds=30),
    }
    return TaskContext(**{**values, **changes})


def courier_of(*, limit: int = 4, chance: Callable[[], float] = lambda: 0.0, **exchange: Any) -> Courier:
    values: dict[str, Any] = {"allowed_networks": LOOPBACK, "deadline_seconds": 5.0}
    return Courier(
        exchange=Exchange(**{**values, **exchange}),
        destinations=Destinations(limit=limit),
        chance=chance,
    )
