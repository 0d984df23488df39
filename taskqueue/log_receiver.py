"""The one place that turns events into log lines."""

import logging
from collections.abc import Mapping
from typing import Any

import structlog

from taskqueue.events import CATALOGUE, EventType

_UID = "taskqueue.log_receiver"


def connect(catalogue: Mapping[str, EventType] = CATALOGUE, *, logger: str = "taskqueue") -> None:
    """Subscribe to the events whose level is logged, as logging is set up now. ``logger`` is named on each line."""
    log: Any = structlog.get_logger(logger)

    def write_line(sender: EventType, data: dict[str, Any], **_: object) -> None:
        log.log(sender.level, sender.name, **data)

    for event in catalogue.values():
        if logging.getLogger(logger).isEnabledFor(event.level):
            event.signal.connect(write_line, weak=False, dispatch_uid=_UID)


def disconnect(catalogue: Mapping[str, EventType] = CATALOGUE) -> None:
    for event in catalogue.values():
        event.signal.disconnect(dispatch_uid=_UID)
