"""The bench of the queue: what it says of its numbers, and that it runs on the product as it is now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import report, systems
from bench.measures import Sizes
from bench.tally import Tally

_SIZES = Sizes(
    drained=1, finished_before=1, sleeps=1, sleep_concurrency=1, enqueued=1, latencies=1, slots=16
)  # fmt: skip
_NAMES = ("floor", "xngin", "pgqueuer", "django-tasks-db")


def _report(**measured: dict[str, list[list[report.Value]]]) -> str:
    chosen = [systems.load(name) for name in _NAMES]
    return report.markdown(measured, chosen, _SIZES, rounds=3, facts={"PostgreSQL": "18"})


def _line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


def test_medians_over_the_rounds_are_judged_by_what_was_asked() -> None:
    text = _report(
        drain={
            "floor": [[1000.0], [2000.0], [9000.0]],
            "xngin": [[1100.0], [10.0], [1200.0]],
            "pgqueuer": [[1000.0]],
            "django-tasks-db": [[25.0]],
        }
    )
    assert _line(text, "| drain ÷ the floor's") == "| drain ÷ the floor's | ≥ 0.5 | 0.55 | met |"
    assert _line(text, "| drain ÷ pgqueuer's") == "| drain ÷ pgqueuer's | ≥ 1.2 | 1.10 | **missed** |"
    assert _line(text, "| drain ÷ django-tasks-db's") == "| drain ÷ django-tasks-db's | ≥ 40 | 44.00 | met |"


def test_times_and_latencies_are_met_from_below() -> None:
    text = _report(
        sleeps={"floor": [[2400.0]], "xngin": [[1900.0]]},
        latency={"floor": [[(0.001, 0.0005)]], "xngin": [[(0.0021, 0.0009)]]},
    )
    assert "| 1.26 | **missed** |" in _line(text, "| time of the 20 ms tasks")
    assert "| 2.10 | **missed** |" in _line(text, "| idle latency p50 ÷ the floor's, from INSERT sent")
    assert "| 1.80 | met |" in _line(text, "| idle latency p50 ÷ the floor's, from its commit")


def test_the_best_peer_is_neither_the_floor_nor_the_product() -> None:
    text = _report(enqueue={"floor": [[900.0]], "xngin": [[500.0]], "pgqueuer": [[200.0]], "django-tasks-db": [[9.0]]})
    assert "| 2.50 | met |" in _line(text, "| bulk enqueue ÷ the best peer's")


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    text = _report(drain={"xngin": [[1.0]]})
    assert "not measured" in _line(text, "| drain ÷ pgqueuer's")


def test_processes_share_one_tally(tmp_path: Path) -> None:
    ours, theirs = Tally(tmp_path / "tally"), Tally(tmp_path / "tally")
    ours.handler_started(0)
    theirs.handler_started(3)
    ours.handler_started(0)
    assert (theirs.total, theirs.counts()[:4]) == (3, [2, 0, 0, 1])
    assert 0 < theirs.first_ns < theirs.last_ns
    ours.reset()
    assert theirs.total == 0


@pytest.mark.slow
def test_floor_and_product_are_measured_in_a_small_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.queue", "--quick", "--only", "floor,xngin", "--measure", "drain,enqueue"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" met |") + done.stdout.count("**missed**") == 1
