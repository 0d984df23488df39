"""Workers are killed at random all the time, and yet every task is done; `python -m bench.soak` does it for longer."""

from __future__ import annotations

from pathlib import Path

from tests.support.own_server import QueueDatabase
from tests.support.soak import Plan, soak


def test_every_task_succeeds_while_workers_are_killed_at_random(database: QueueDatabase, tmp_path: Path) -> None:
    plan = Plan(tasks=600, workers=3, seconds=12, life_seconds=(1, 5), longest_sleep_seconds=0.02, seed=1)

    result = soak(database, tmp_path, plan)

    assert result.violations == []
    assert result.statuses == {"success": 600}
    assert result.kills >= 3
