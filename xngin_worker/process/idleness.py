"""When a worker that is to end for want of work may end: all of its halves found nothing, and nothing moved since."""

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(kw_only=True)
class _Part:
    moves: Callable[[], int]
    look: Callable[[], None]
    reported_at: int | None = None
    confirmed_at: int | None = None


class Idleness:
    """``report`` is called by a part's own loop whenever a look of it found nothing to do.

    What one half does may give work to the other. So a part counts as idle only by a look that began after the last
    move of any of them: the second of two reports between which nothing moved.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._lock = threading.Lock()
        self._parts: dict[str, _Part] = {}

    def add(self, name: str, *, moves: Callable[[], int], look: Callable[[], None]) -> None:
        """``moves`` grows whenever the part takes or ends something; ``look`` makes it look again at once."""
        self._parts[name] = _Part(moves=moves, look=look)

    def report(self, name: str) -> None:
        moved = sum(part.moves() for part in self._parts.values())
        with self._lock:
            part = self._parts[name]
            part.confirmed_at = moved if part.reported_at == moved else None
            part.reported_at = moved
            unsure = [other for other in self._parts.values() if other.confirmed_at != moved]
        if not unsure:
            self._on_idle()
        for other in unsure:
            other.look()
