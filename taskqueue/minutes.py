"""What a worker counts of its attempts, minute by minute: how they ended, how long tasks waited and ran.

Pages read these sums instead of ``tasks``. A worker keeps the totals of a span until it has written them after its end,
and always writes whole totals, so that a write whose answer was lost may simply be repeated.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest

from taskqueue.finishes import Written
from taskqueue.lifecycle import Event
from taskqueue.records import SpanTotals

# Spans that are summed, in minutes: the short ones for the last hour, the long ones for the last day.
SPANS = (1, 15)
OTHERS = "(others)"
_MOST_LANES = 200
_LONGEST_NAME = 200
_LAST_BUCKET = 62
_KINDS = {
    Event.COMPLETE: "succeeded",
    Event.FAIL: "retried",
    Event.SNOOZE: "snoozed",
    Event.EXHAUST: "dead",
    Event.DISCARD: "dead_lettered",
}


def bucket_of(milliseconds: float) -> int:
    """Bucket 0 holds less than a millisecond, bucket n ends at 2^(n/2) milliseconds; the last one has no end."""
    if milliseconds < 1:
        return 0
    return min(1 + int(2 * math.log2(milliseconds)), _LAST_BUCKET)


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The milliseconds that ``share`` of the values stay below; None of no values. Within a bucket they lie evenly."""
    total = sum(counts)
    if not total:
        return None
    left = share * total
    for bucket, count in enumerate(counts):
        if count and left <= count:
            low, high = (0.0, 1.0) if bucket == 0 else (2 ** ((bucket - 1) / 2), 2 ** (bucket / 2))
            return low + (high - low) * left / count
        left -= count
    raise AssertionError("unreachable: the buckets hold the total")


def added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Bucket by bucket. Buckets behind the last value are not stored."""
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]


@dataclass(kw_only=True, slots=True)
class _Cell:
    """The totals of one span and lane. ``fresh``: not written since they last changed."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS.values(), 0))
    waited_ms: float = 0.0
    ran_ms: float = 0.0
    waits: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    fresh: bool = True

    def add(self, kind: str, waited_seconds: float, ran_seconds: float) -> None:
        waited_ms, ran_ms = waited_seconds * 1000, ran_seconds * 1000
        self.counts[kind] += 1
        self.waited_ms += waited_ms
        self.ran_ms += ran_ms
        _put(self.waits, bucket_of(waited_ms))
        _put(self.runs, bucket_of(ran_ms))
        self.fresh = True


type _Key = tuple[int, int, str, str]  # span in minutes, its number since 1970, task type, queue


class Minutes:
    """Counters of one worker. ``count`` may be called by any thread and costs next to nothing; the rest by one."""

    def __init__(self) -> None:
        self._noted: deque[tuple[str, str, str, float, float, float]] = deque()
        self._cells: dict[_Key, _Cell] = {}
        self._lanes: Counter[tuple[int, int]] = Counter()
        self._closed = dict.fromkeys(SPANS, -1)
        self._as_of = 0.0

    def count(self, written: Written) -> None:
        """An ending that was written and still held its claim. What was given back unfinished does not count."""
        ending, held = written.finish.ending, written.finish.held
        kind = "dead_lettered" if written.superseded else _KINDS.get(ending.event)
        if kind is None or not written.kept:
            return
        now = time.monotonic()
        waited = held.claim.waited_seconds
        self._noted.append((held.claim.task_type, held.claim.queue, kind, waited, now - held.claimed_at, now))

    def totals(self, offset: float) -> list[SpanTotals]:
        """The totals that changed since they were last confirmed. ``offset``: what to add to the monotonic clock."""
        self._as_of = time.monotonic() + offset
        while self._noted:
            task_type, queue, kind, waited, ran, at = self._noted.popleft()
            for span in SPANS:
                self._cell(span, int((at + offset) // (60 * span)), task_type, queue).add(kind, waited, ran)
        return [_row(key, cell) for key, cell in self._cells.items() if cell.fresh]

    def confirm(self) -> None:
        """What ``totals`` gave out is written: forget the spans that were over by then."""
        for key in [key for key in self._cells if (key[1] + 1) * 60 * key[0] <= self._as_of]:
            # Should the clock go back, nothing is put into a span whose totals are gone from here.
            self._closed[key[0]] = max(self._closed[key[0]], key[1])
            self._lanes.pop(key[:2], None)
            del self._cells[key]
        for cell in self._cells.values():
            cell.fresh = False

    def _cell(self, span: int, number: int, task_type: str, queue: str) -> _Cell:
        number = max(number, self._closed[span] + 1)
        key = (span, number, task_type[:_LONGEST_NAME], queue[:_LONGEST_NAME])
        if key not in self._cells and self._lanes[span, number] >= _MOST_LANES:
            key = (span, number, OTHERS, OTHERS)
        if key not in self._cells:
            self._lanes[span, number] += 1
            self._cells[key] = _Cell()
        return self._cells[key]


def _put(buckets: list[int], bucket: int) -> None:
    if bucket >= len(buckets):
        buckets.extend([0] * (bucket + 1 - len(buckets)))
    buckets[bucket] += 1


def _row(key: _Key, cell: _Cell) -> SpanTotals:
    span, number, task_type, queue = key
    return SpanTotals(
        span=span,
        begins_at=datetime.fromtimestamp(number * 60 * span, UTC),
        task_type=task_type,
        queue=queue,
        **cell.counts,
        waited_ms=round(cell.waited_ms),
        ran_ms=round(cell.ran_ms),
        waits=list(cell.waits),
        runs=list(cell.runs),
    )
