"""What a look found due beyond the free slots, so that the slots that free up next need no look of their own."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from experiments.scheduler.due import DueJob, Room

# A look finds work for so many rounds of the slots that are free, and is believed for so long. Opening a run checks
# anyway that nobody else did the job meanwhile.
_ROUNDS = 8
_FRESH_SECONDS = 1.0


class Backlog:
    def __init__(self) -> None:
        self._jobs: list[DueJob] = []
        self._fresh_until = 0.0

    @staticmethod
    def wanted(room: Room) -> Room:
        """The room to look for, when this much is free."""
        return replace(room, slots=room.slots * _ROUNDS, datasource_slots=room.datasource_slots * _ROUNDS)

    def fill(self, jobs: Sequence[DueJob]) -> None:
        self._jobs = list(jobs)
        self._fresh_until = time.monotonic() + _FRESH_SECONDS

    def take(self, room: Room) -> list[DueJob]:
        """What fits, the oldest first, and not too much of one datasource; nothing once it is old."""
        if time.monotonic() > self._fresh_until:
            self._jobs = []
        taken = Counter(room.held_datasources)
        fitting: list[DueJob] = []
        left: list[DueJob] = []
        for due in self._jobs:
            if len(fitting) < room.slots and taken[due.datasource_id] < room.datasource_slots:
                taken[due.datasource_id] += 1
                fitting.append(due)
            else:
                left.append(due)
        self._jobs = left
        return fitting
