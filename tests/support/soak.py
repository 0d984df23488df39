"""Many tasks, several workers, and a hand that kills them at random: what must hold in the end whatever happened."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.own_server import QueueDatabase
from tests.support.worker_process import LOOK_SECONDS, WorkerProcess

_FEED_SECONDS = 0.2
_LEASE_SECONDS = 3.0
_POLL_SECONDS = 1.0
# After the last kill every worker lives, so nothing waits longer than for leases to run out and tasks to run.
_SETTLE_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """``longest_sleep_seconds``: half of the tasks take up to that long, the others no time at all.

    A task that is lost three times counts as a killer of workers, and chance alone brings that about for a share of
    (run time / life of a worker)³ of them. So lives have to be long beside run times.
    """

    tasks: int
    workers: int
    seconds: float
    life_seconds: tuple[float, float]
    longest_sleep_seconds: float
    seed: int


@dataclass(kw_only=True)
class Result:
    kills: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    repeated: int = 0
    lost_attempts: int = 0
    most_attempts: int = 0
    claims_lost: int = 0
    settled_seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    def table(self) -> str:
        rows: list[tuple[str, Any]] = [
            ("workers killed", self.kills),
            *((f"tasks in {status}", count) for status, count in sorted(self.statuses.items())),
            ("handlers started", self.runs),
            ("tasks started more than once", self.repeated),
            ("attempts recorded as lost", self.lost_attempts),
            ("most attempts of one task", self.most_attempts),
            ("claims that a living worker lost", self.claims_lost),
            ("seconds from the last kill until all was done", round(self.settled_seconds, 1)),
            ("violations", len(self.violations)),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join([*(f"{name:<{width}}  {value}" for name, value in rows), *self.violations])


def soak(database: QueueDatabase, folder: Path, plan: Plan, *, say: Callable[[str], None] = lambda _: None) -> Result:
    """Feed the tasks evenly over the time while workers are killed with -9 and started anew, then wait for the end."""
    result = Result()
    file = folder / "runs"
    file.touch()
    dice = random.Random(plan.seed)  # noqa: S311 - the same soak again, not a secret
    crew = _Crew(database, plan, dice)
    begun = time.monotonic()
    fed = 0
    try:
        while (passed := time.monotonic() - begun) < plan.seconds or fed < plan.tasks:
            due = min(int(plan.tasks * (passed + _FEED_SECONDS) / plan.seconds), plan.tasks)
            _feed(database, file, due - fed, plan, dice)
            fed = due
            crew.kill_and_restart()
            time.sleep(_FEED_SECONDS)
            say(f"{passed:6.1f} s: {fed} tasks given, {crew.kills} workers killed")
        result.kills = crew.kills
        settling = time.monotonic()
        _wait(database, settling + _SETTLE_SECONDS)
        result.settled_seconds = time.monotonic() - settling
        _judge(database, file, plan, result)
        for number, worker in enumerate(crew.workers):
            if (code := worker.stop()) != 0:
                result.violations.append(f"worker {number} ended with {code}")
        result.claims_lost = crew.claims_lost
    finally:
        crew.clear_away()
    return result


class _Crew:
    def __init__(self, database: QueueDatabase, plan: Plan, dice: random.Random) -> None:
        self._database = database
        self._plan = plan
        self._dice = dice
        self.kills = 0
        self._all: list[WorkerProcess] = []
        self.workers = [self._start() for _ in range(plan.workers)]
        self._doomed: list[float | None] = [None] * plan.workers

    def kill_and_restart(self) -> None:
        """Each worker lives for a random time from the moment it works; the hand never waits for one to start."""
        now = time.monotonic()
        for place, worker in enumerate(self.workers):
            doomed = self._doomed[place]
            if worker.process.poll() is not None:
                raise AssertionError(f"a worker ended by itself: {worker.said()}")
            if doomed is None:
                if worker.lines("taskqueue.worker.started"):
                    self._doomed[place] = now + self._dice.uniform(*self._plan.life_seconds)
            elif now >= doomed:
                worker.kill()
                self.kills += 1
                self.workers[place], self._doomed[place] = self._start(), None

    @property
    def claims_lost(self) -> int:
        return sum(len(worker.lines("taskqueue.claim.lost")) for worker in self._all)

    def clear_away(self) -> None:
        for worker in self._all:
            worker.clear_away()

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(
            self._database.url, "--lease", str(_LEASE_SECONDS), "--poll-interval", str(_POLL_SECONDS)
        )
        self._all.append(worker)
        return worker


def _feed(database: QueueDatabase, file: Path, count: int, plan: Plan, dice: random.Random) -> None:
    if count <= 0:
        return
    sleeps = [0.0 if dice.random() < 0.5 else dice.uniform(0, plan.longest_sleep_seconds) for _ in range(count)]
    database.execute(
        "INSERT INTO tasks (task_type, payload)"
        " SELECT 'test.append', jsonb_build_object('file', %s::text, 'seconds', given.seconds)"
        " FROM unnest(%s::float8[]) AS given (seconds)",
        [str(file), sleeps],
    )


def _wait(database: QueueDatabase, deadline: float) -> None:
    while time.monotonic() < deadline:
        if not database.count("pending") and not database.count("running"):
            return
        time.sleep(LOOK_SECONDS)


def _judge(database: QueueDatabase, file: Path, plan: Plan, result: Result) -> None:
    tasks = {row["id"]: row for row in database.execute("SELECT * FROM tasks")}
    attempts = {
        (row["task_id"], row["attempt"]): row["outcome"] for row in database.execute("SELECT * FROM task_attempts")
    }
    runs = Counter[tuple[str, int]]()
    for line in file.read_text().splitlines():
        id, attempt = line.split()
        runs[id, int(attempt)] += 1
    started = Counter(id for id, _ in runs)
    result.statuses = dict(Counter(row["status"] for row in tasks.values()))
    result.runs = sum(runs.values())
    result.repeated = sum(1 for count in started.values() if count > 1)
    result.lost_attempts = sum(1 for outcome in attempts.values() if outcome == "lost")
    result.most_attempts = max(row["attempt"] for row in tasks.values())
    wrong = result.violations
    if len(tasks) != plan.tasks:
        wrong.append(f"{len(tasks)} tasks in the table instead of {plan.tasks}")
    wrong.extend(
        f"{id} is {row['status']}: {row['message']}" for id, row in tasks.items() if row["status"] != "success"
    )
    wrong.extend(f"{id}: no handler ran it" for id in tasks if id not in started)
    wrong.extend(f"{id}: attempt {attempt} ran {count} times" for (id, attempt), count in runs.items() if count > 1)
    for (id, attempt), outcome in attempts.items():
        if outcome != "lost":
            wrong.append(f"{id}: attempt {attempt} is recorded as {outcome}, and no handler failed")
        if attempt >= tasks[id]["attempt"] and tasks[id]["status"] == "success":
            wrong.append(f"{id}: attempt {attempt} is recorded as {outcome} and finished the task as well")
    for id, row in tasks.items():
        recorded = sum(1 for attempt in range(1, row["attempt"]) if (id, attempt) in attempts)
        if recorded != row["attempt"] - 1:
            wrong.append(f"{id}: of {row['attempt'] - 1} attempts before the last one {recorded} are recorded")
        if row["retry_count"] != 0 or row["lost_count"] > row["attempt"]:
            wrong.append(f"{id}: {row['retry_count']} retries, {row['lost_count']} losses, {row['attempt']} attempts")
