"""Listening to the queue's events in a test."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from taskqueue import events
from taskqueue.events import EventType


@dataclass(frozen=True, kw_only=True)
class HeardEvent:
    name: str
    data: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


class CapturedEvents(list[HeardEvent]):
    """In the order in which they were emitted, from whichever thread."""

    @property
    def names(self) -> list[str]:
        return [event.name for event in self]

    def named(self, name: str) -> list[HeardEvent]:
        """Raises ``ValueError`` for a name that no heard event can have."""
        if name not in events.CATALOGUE and name not in self.names:
            raise ValueError(f"there is no event {name!r}; docs/telemetry.md lists them")
        return [event for event in self if event.name == name]


@contextmanager
def capture_events(catalogue: Mapping[str, EventType] = events.CATALOGUE) -> Iterator[CapturedEvents]:
    """The events of a catalogue, by default the queue's, that are emitted while the block runs."""
    heard = CapturedEvents()

    def hear(sender: EventType, data: dict[str, Any], **_: Any) -> None:
        heard.append(HeardEvent(name=sender.name, data=dict(data)))

    for event in catalogue.values():
        event.signal.connect(hear)
    try:
        yield heard
    finally:
        for event in catalogue.values():
            event.signal.disconnect(hear)
