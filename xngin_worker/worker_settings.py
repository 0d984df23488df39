"""The settings of the worker process: one table, from which come the options of `runworker`, the
`XNGIN_WORKER_*` variables, the help text and the page about settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from xngin_worker.values import read_choice, read_count, read_duration, read_flag, read_list, show_duration

type WorkerValue = int | float | bool | str | tuple[str, ...] | None

BOTH = "both"
TASKS = "tasks"
JOBS = "jobs"
HALVES = (BOTH, TASKS, JOBS)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How one worker process behaves. An empty `queues` means all of them, a zero `max_tasks` or `max_jobs` none."""

    max_jobs: int
    max_tasks: int
    task_concurrency: int
    job_concurrency: int
    queues: tuple[str, ...]
    poll_interval_seconds: float
    lease_seconds: float
    max_retries: int
    drain_timeout_seconds: float
    snapshot_interval_seconds: float
    pull_interval_seconds: float
    job_timeout_seconds: float
    db_outage_seconds: float
    exit_when_idle: bool
    only: str
    health_port: int | None

    @property
    def runs_tasks(self) -> bool:
        return self.only != JOBS

    @property
    def runs_jobs(self) -> bool:
        return self.only != TASKS


class Kind(StrEnum):
    COUNT = "whole number"
    DURATION = "duration"
    NAMES = "names between commas"
    FLAG = "yes or no"
    HALF = "both, tasks or jobs"


@dataclass(frozen=True, kw_only=True)
class WorkerSetting:
    """One line of the table. `lowest` and `highest` bound counts and durations (in seconds), inclusive."""

    field: str
    option: str
    kind: Kind
    default: WorkerValue
    meaning: str
    lowest: float = 0
    highest: float = 0

    @property
    def variable(self) -> str:
        return "XNGIN_WORKER_" + self.option.removeprefix("--").replace("-", "_").upper()

    @property
    def destination(self) -> str:
        """The name under which argparse and `call_command` know the option."""
        return self.option.removeprefix("--").replace("-", "_")

    def read(self, text: str) -> WorkerValue:
        """The value of `text`; `ValueError` says what is accepted."""
        match self.kind:
            case Kind.COUNT if self.default is None and text.strip().casefold() == "off":
                return None
            case Kind.COUNT:
                return read_count(text, lowest=int(self.lowest), highest=int(self.highest))
            case Kind.DURATION:
                return read_duration(text, lowest=self.lowest, highest=self.highest)
            case Kind.NAMES:
                return self._read_names(text)
            case Kind.FLAG:
                return read_flag(text)
            case Kind.HALF:
                return read_choice(text, HALVES)

    @property
    def default_text(self) -> str:
        """The default as a person would write it."""
        if self.kind is Kind.NAMES:
            return "all"
        if self.kind is Kind.FLAG:
            return "yes" if self.default else "no"
        if self.default is None:
            return "off"
        if self.kind is Kind.DURATION:
            return show_duration(float(str(self.default)))
        return str(self.default)

    @property
    def accepted(self) -> str:
        """What may be given, for help and documentation."""
        if self.kind is Kind.COUNT:
            bounds = f"{int(self.lowest)} to {int(self.highest)}"
            return bounds if self.default is not None else f"{bounds}, or off"
        if self.kind is Kind.DURATION:
            return f"{show_duration(self.lowest)} to {show_duration(self.highest)}"
        return self.kind.value

    def _read_names(self, text: str) -> tuple[str, ...]:
        names = read_list(text)
        if not names:
            raise ValueError(f"must be names between commas, or all, not {text!r}")
        if "all" in names and len(names) > 1:
            raise ValueError("must be either all or the names of queues, not both")
        return () if names == ("all",) else names


_DAY = 86400

WORKER_SETTINGS: tuple[WorkerSetting, ...] = (
    WorkerSetting(
        field="max_jobs",
        option="--max-jobs",
        kind=Kind.COUNT,
        default=1000,
        highest=1_000_000_000,
        meaning="maintenance jobs after which it drains and exits 0 for a fresh process (0: never)",
    ),
    WorkerSetting(
        field="max_tasks",
        option="--max-tasks",
        kind=Kind.COUNT,
        default=0,
        highest=1_000_000_000,
        meaning="tasks after which it drains and exits 0 for a fresh process (0: never)",
    ),
    WorkerSetting(
        field="task_concurrency",
        option="--task-concurrency",
        kind=Kind.COUNT,
        default=16,
        lowest=1,
        highest=1000,
        meaning="tasks that run at the same time",
    ),
    WorkerSetting(
        field="job_concurrency",
        option="--job-concurrency",
        kind=Kind.COUNT,
        default=4,
        lowest=1,
        highest=1000,
        meaning="maintenance jobs that run at the same time, at most half of them for one datasource",
    ),
    WorkerSetting(
        field="queues",
        option="--queues",
        kind=Kind.NAMES,
        default=(),
        meaning="queues that are served",
    ),
    WorkerSetting(
        field="poll_interval_seconds",
        option="--poll-interval",
        kind=Kind.DURATION,
        default=5.0,
        lowest=0.01,
        highest=3600,
        meaning="longest time between two looks for work when no notification arrives",
    ),
    WorkerSetting(
        field="lease_seconds",
        option="--lease",
        kind=Kind.DURATION,
        default=60.0,
        lowest=3,
        highest=_DAY,
        meaning="time after which a dead worker's tasks and jobs go to another; renewed while a worker lives",
    ),
    WorkerSetting(
        field="max_retries",
        option="--max-retries",
        kind=Kind.COUNT,
        default=10,
        highest=10_000,
        meaning="retries of a task for which neither its row nor its handler says how many",
    ),
    WorkerSetting(
        field="drain_timeout_seconds",
        option="--drain-timeout",
        kind=Kind.DURATION,
        default=110.0,
        highest=_DAY,
        meaning="time that running tasks and jobs have after SIGTERM or SIGINT; then they are released and it exits 3",
    ),
    WorkerSetting(
        field="snapshot_interval_seconds",
        option="--snapshot-interval",
        kind=Kind.DURATION,
        default=3 * 3600.0,
        lowest=1,
        highest=30 * _DAY,
        meaning="time from one snapshot of an experiment to the next",
    ),
    WorkerSetting(
        field="pull_interval_seconds",
        option="--pull-interval",
        kind=Kind.DURATION,
        default=4 * 3600.0,
        lowest=1,
        highest=30 * _DAY,
        meaning="time from one pull of outcomes from an experiment's warehouse to the next",
    ),
    WorkerSetting(
        field="job_timeout_seconds",
        option="--job-timeout",
        kind=Kind.DURATION,
        default=900.0,
        lowest=1,
        highest=_DAY,
        meaning="time a maintenance job may take; then its query is cancelled and the job has failed",
    ),
    WorkerSetting(
        field="db_outage_seconds",
        option="--db-outage",
        kind=Kind.DURATION,
        default=300.0,
        highest=7 * _DAY,
        meaning="time it keeps reconnecting to a database that is away before it gives up and exits 1",
    ),
    WorkerSetting(
        field="exit_when_idle",
        option="--exit-when-idle",
        kind=Kind.FLAG,
        default=False,
        meaning="exit 0 as soon as nothing is due, for cron and tests",
    ),
    WorkerSetting(
        field="only",
        option="--only",
        kind=Kind.HALF,
        default=BOTH,
        meaning="the half of the work that is done: tasks of the queue, or maintenance jobs of experiments",
    ),
    WorkerSetting(
        field="health_port",
        option="--health-port",
        kind=Kind.COUNT,
        default=None,
        lowest=1,
        highest=65535,
        meaning="port on which liveness and readiness are answered",
    ),
)

WORKER_VARIABLES = {setting.variable: setting for setting in WORKER_SETTINGS}
WORKER_OPTIONS = {setting.option: setting for setting in WORKER_SETTINGS}


def settle(given: Mapping[str, WorkerValue]) -> WorkerSettings:
    """The settings with `given` (by field name) over the defaults."""
    values: dict[str, WorkerValue] = {setting.field: setting.default for setting in WORKER_SETTINGS}
    return WorkerSettings(**{**values, **given})  # type: ignore[arg-type]  # `read` returns what the field holds
