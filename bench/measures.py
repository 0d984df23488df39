"""What is measured. Each function gives one number (or several latencies) for one system in one round."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.fleet import BenchFailure, Fleet, create, enqueue, fleet
from bench.server import BenchServer
from bench.system import System

_LONGEST_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Sizes:
    drained: int
    finished_before: int
    sleeps: int
    sleep_concurrency: int
    enqueued: int
    latencies: int
    slots: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """One system's turn in one round. ``database`` is emptied first, ``full_database`` keeps its finished tasks."""

    system: System
    server: BenchServer
    sizes: Sizes
    database: str
    full_database: str

    def prepare(self, *, full: bool) -> None:
        create(self.system, self.server.make(self.database))
        if full:
            create(self.system, self.server.make(self.full_database))
            with self.server.connection(self.full_database) as connection:
                for statement in (self.system.fill % {"count": self.sizes.finished_before}).split(";"):
                    connection.execute(statement.encode())
                connection.execute("VACUUM ANALYZE")

    def drop(self) -> None:
        for database in (self.database, self.full_database):
            self.server.drop(database)

    def drain(self, *, workers: int = 1) -> float:
        """Tasks a second, from the first handler's start until all are done in the table."""
        return self._drain(self.database, "noop", self._drained, workers=workers, slots=self.sizes.slots)

    def drain_full(self) -> float:
        """The same beside a million finished tasks."""
        return self._drain(self.full_database, "noop", self._drained, workers=1, slots=self.sizes.slots)

    def sleeps(self) -> float:
        """Tasks a second that wait for 20 ms."""
        count = max(int(self.sizes.sleeps * self.system.share_of_sleeps), 1)
        return self._drain(self.database, "sleep", count, workers=1, slots=self.sizes.sleep_concurrency)

    def enqueue(self) -> float:
        """Tasks a second put into the queue by the API for many."""
        count = int(self.sizes.enqueued * self.system.share_of_enqueued)
        with self.server.connection(self.database) as connection:
            connection.execute(self.system.empty.encode())
            connection.execute("CHECKPOINT")
            seconds = enqueue(self.system, self.server.url(self.database), count, "noop")
            if not connection.execute(self.system.unfinished.encode()).fetchone():
                raise BenchFailure(f"{self.system.name}: nothing was enqueued")
            connection.execute(self.system.empty.encode())
        return count / seconds

    def latencies(self) -> list[tuple[float, float]]:
        """Seconds from sending an INSERT, and from its commit, to the handler's start in an idle worker."""
        measured = []
        with self._fleet(self.database, workers=1, slots=self.sizes.slots, kind="noop") as workers:
            for _ in range(self.sizes.latencies):
                time.sleep(random.uniform(0.1, 0.2))  # noqa: S311 - not a secret, an irregular pause
                before = workers.tally.total
                sent = time.monotonic_ns()
                workers.connection.execute(self.system.insert.encode())
                committed = time.monotonic_ns()
                workers.wait(before + 1, seconds=30)
                started = workers.tally.last_ns
                measured.append(((started - sent) / 1e9, (started - committed) / 1e9))
        return measured

    @property
    def _drained(self) -> int:
        return int(self.sizes.drained * self.system.share)

    def _drain(self, database: str, kind: str, count: int, *, workers: int, slots: int) -> float:
        with self._fleet(database, workers=workers, slots=slots, kind=kind) as running:
            running.freeze()
            done_before = running.scalar(self.system.done)
            enqueue(self.system, running.url, count, kind)
            # Everyone's statistics are fresh, and no checkpoint is owed for somebody else's work.
            running.connection.execute("VACUUM ANALYZE")
            running.connection.execute("CHECKPOINT")
            running.thaw()
            ended = running.wait(count, seconds=_LONGEST_SECONDS)
            done = running.scalar(self.system.done) - done_before
            if done != count or running.tally.total != count:
                raise BenchFailure(f"{self.system.name}: {running.tally.total} handled, {done} done, of {count}")
            return count / ((ended - running.tally.first_ns) / 1e9)

    @contextmanager
    def _fleet(self, database: str, *, workers: int, slots: int, kind: str) -> Iterator[Fleet]:
        with self.server.connection(database) as connection:
            if database == self.database:
                connection.execute(self.system.empty.encode())
            url = self.server.url(database)
            with fleet(self.system, url, connection, workers=workers, concurrency=slots, kind=kind) as running:
                yield running
