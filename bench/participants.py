"""Participants in bulk and one by one: assignments loaded, outcomes recorded, draws made, at three sizes.

    .venv/bin/python -m bench.participants [--rows 1000000] [--write]

Each size is a process of its own on a new database. Nothing is compared with other products: what counts is that the
seconds grow with the rows, and the memory and the milliseconds for one do not.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BufferedReader, RawIOBase
from pathlib import Path

from bench import server

_ROOT = Path(__file__).resolve().parents[1]
_DATABASE = "bench_participants"
_RESULTS = Path(__file__).parent / "results" / "participants.md"
_SINGLES = 200


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.participants", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help=f"write {_RESULTS.relative_to(_ROOT)}")
    arguments = parser.parse_args()
    measured: list[dict[str, float]] = []
    with server.started() as started:
        for rows in (arguments.rows // 100, arguments.rows // 10, arguments.rows):
            environment = {**os.environ, "DATABASE_URL": started.make(_DATABASE), "XNGIN_ENVIRONMENT": "development"}
            _call([sys.executable, "manage.py", "migrate", "--verbosity", "0"], environment)
            told = _call(
                [sys.executable, "-c", f"from bench.participants import measure; measure({rows})"], environment
            )
            measured.append(json.loads(told))
            started.drop(_DATABASE)
    lines = ["| | " + " | ".join(f"{int(one['rows']):,}" for one in measured) + " |", "|---" * 4 + "|"]
    lines += [
        f"| {name} | " + " | ".join(f"{one[name]:.2f}" for one in measured) + " |"
        for name in measured[0]
        if name != "rows"
    ]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    text = f"# Participants\n\n{datetime.now(UTC):%Y-%m-%d}, load of the machine at the end {load}.\n\n"
    text += "\n".join(lines) + "\n"
    print(text)
    if arguments.write:
        _RESULTS.write_text(text)


def measure(rows: int) -> None:
    """In a process of its own, whose settings name the database; prints JSON."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    django.setup()
    from django.db import connection

    from experiments.kinds import ExperimentState, ExperimentType
    from experiments.operations.draw import draw_participant
    from experiments.operations.load import load_assignments
    from experiments.operations.record import record_outcome, record_outcomes
    from tests.support.experiments import arms_of, make_experiment

    def copy(table: str, experiment_id: str, arm_ids: list[str], prefix: str) -> None:
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {table} (experiment_id, participant_id, arm_id) FROM STDIN") as out,
        ):
            for start in range(0, rows, 10_000):
                numbers = range(start, min(start + 10_000, rows))
                out.write("".join(f"{experiment_id}\t{prefix}{n:09d}\t{arm_ids[n % 2]}\n" for n in numbers))

    online = make_experiment(ExperimentType.FREQ_ONLINE)
    drafted = make_experiment(ExperimentType.FREQ_PREASSIGNED, state=ExperimentState.ASSIGNED)
    bandit = make_experiment(ExperimentType.MAB_ONLINE)
    told = {"rows": float(rows)}
    told["assignments by COPY, s"] = _seconds(
        lambda: copy("arm_assignments", online.id, [arm.id for arm in arms_of(online)], "p")
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file = BufferedReader(_Lines(rows), 1 << 20)
    told["assignments by load_assignments, s"] = _seconds(lambda: load_assignments(drafted.id, file))
    told["memory of that process above idle, MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    told["draws by COPY, s"] = _seconds(lambda: copy("draws", bandit.id, [arm.id for arm in arms_of(bandit)], "p"))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    told["one draw, ms"] = (
        _seconds(lambda: [draw_participant(bandit.id, f"new {number}") for number in range(_SINGLES)]) * 1000 / _SINGLES
    )
    told["one outcome, ms"] = (
        _seconds(lambda: [record_outcome(bandit.id, f"p{number:09d}", 1) for number in range(_SINGLES)])
        * 1000
        / _SINGLES
    )
    outcomes = {f"p{number:09d}": 0 for number in range(_SINGLES, rows // 10)}
    told["outcomes of a tenth of the draws at once, s"] = _seconds(
        lambda: record_outcomes(bandit.id, outcomes, autofailed=True)
    )
    print(json.dumps(told))


class _Lines(RawIOBase):
    """A CSV file that is made while it is read."""

    def __init__(self, rows: int) -> None:
        self._parts = self._made(rows)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._rest = part
        taken = min(len(buffer), len(self._rest))
        buffer[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken

    @staticmethod
    def _made(rows: int) -> Iterator[bytes]:
        yield b"participant_id,arm\n"
        for start in range(0, rows, 10_000):
            numbers = range(start, min(start + 10_000, rows))
            # In no order, as files are: 7919 is prime.
            yield "".join(f"user-{n * 7919 % 1_000_000_007},{n % 2 + 1}\n" for n in numbers).encode()


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _call(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, cwd=_ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
