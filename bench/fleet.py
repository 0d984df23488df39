"""Workers of one system as processes: started and warm, then stopped in their tracks until the work lies ready.

So neither the start of Python nor the loading of tasks is in any number.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.system import System
from bench.tally import Tally

_WARM_UP = 50
_LOOK_SECONDS = 0.001


class BenchFailure(Exception):
    """A system did not do what it was given."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    system: System
    url: str
    connection: psycopg.Connection
    tally: Tally
    processes: list[subprocess.Popen[bytes]]

    def freeze(self) -> None:
        time.sleep(0.3)  # lets what follows a task (log buffers, empty claims) come to an end
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)
        self.tally.reset()

    def thaw(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)

    def wait(self, count: int, *, seconds: float) -> int:
        """Until ``count`` handlers were started and all of it is done in the table; the instant of that (ns)."""
        deadline = time.monotonic() + seconds
        while self.tally.total < count:
            self._judge(deadline, count)
            time.sleep(_LOOK_SECONDS)
        while self.scalar(self.system.unfinished):
            self._judge(deadline, count)
            time.sleep(_LOOK_SECONDS)
        return time.monotonic_ns()

    def scalar(self, statement: str) -> int:
        row = self.connection.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _judge(self, deadline: float, count: int) -> None:
        if any(process.poll() is not None for process in self.processes):
            raise BenchFailure(f"{self.system.name}: a worker ended")
        if time.monotonic() > deadline:
            raise BenchFailure(f"{self.system.name}: {self.tally.total} of {count} tasks were handled in time")


@contextmanager
def fleet(
    system: System, url: str, connection: psycopg.Connection, *, workers: int, concurrency: int, kind: str
) -> Iterator[Fleet]:
    """Workers that have each handled a task."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tally"
        tally = Tally(path)
        processes = [
            program(system, url, "work", str(concurrency), kind, BENCH_TALLY=str(path), BENCH_PLACE=str(place))
            for place in range(workers)
        ]
        fleet = Fleet(system=system, url=url, connection=connection, tally=tally, processes=processes)
        try:
            deadline = time.monotonic() + 60
            given = 0
            while sum(count > 0 for count in tally.counts()) < workers:
                with connection.transaction():
                    for _ in range(_WARM_UP):
                        connection.execute(system.insert.encode())
                given += _WARM_UP
                fleet.wait(given, seconds=deadline - time.monotonic())
            yield fleet
        finally:
            for process in processes:
                process.kill()
                process.wait()


def program(system: System, url: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.program", system.name, *words],
        env=os.environ | environment | {"BENCH_URL": url},
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE if words[0] == "enqueue" else None,
    )


def create(system: System, url: str) -> None:
    if program(system, url, "create").wait(timeout=120):
        raise BenchFailure(f"{system.name}: its tables could not be made")


def enqueue(system: System, url: str, count: int, kind: str) -> float:
    process = program(system, url, "enqueue", str(count), kind)
    output, _ = process.communicate(timeout=600)
    if process.returncode:
        raise BenchFailure(f"{system.name}: enqueueing ended with {process.returncode}")
    return float(output)
