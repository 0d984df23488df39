"""Emitting events of a catalogue."""

from typing import Any

from taskqueue.events import EventType


def emit(event: EventType, **data: Any) -> None:
    """Send an event to its subscribers. A subscriber that raises is logged by Django and stops nobody else."""
    if data.keys() != event.key_set:
        raise TypeError(f"{event.name} takes {sorted(event.keys)}, got {sorted(data)}")
    if event.heard:
        event.signal.send_robust(sender=event, data=data)
