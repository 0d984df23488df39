"""The one place that turns events into log lines."""

import logging
from typing import Any

import structlog

from taskqueue.events import CATALOGUE, EventType

_logger = logging.getLogger("taskqueue")
_log: Any = structlog.get_logger("taskqueue")


def write_line(sender: EventType, data: dict[str, Any], **_: object) -> None:
    _log.log(sender.level, sender.name, **data)


def connect() -> None:
    """Subscribe to the events whose level is logged, as logging is set up now."""
    for event in CATALOGUE.values():
        if _logger.isEnabledFor(event.level):
            event.signal.connect(write_line, dispatch_uid="taskqueue.log_receiver")
