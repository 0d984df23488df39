"""Rules of the upkeep: snapshots fresh and settled, outcomes there in time, runs of jobs closed and counted."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

from experiments.kinds import ExperimentState, ExperimentType, Job
from experiments.reconciliation.statements import statement
from experiments.reconciliation.upkeep_repairs import ASK_FOR_SNAPSHOT, CLOSE_RUN, COUNT_RUNS, FAIL_SNAPSHOT
from experiments.scheduler.schedule import History, Intervals, Subject, next_due
from taskqueue.reconciliation.rules import Check, Found, Kind, Row, Rule, Severity

# Time for a worker to be replaced, a long job to end and a warehouse to come back.
GRACE = timedelta(hours=6)
LOST_SECONDS = 900.0

RUN_CLOSED = Rule(
    name="experiments.job_run_closed",
    kind=Kind.STALE,
    severity=Severity.ERROR,
    table="job_runs",
    meaning="an unfinished run is held: its lease did not run out more than 15 minutes ago.",
    arises="its worker was lost, and no other one that runs jobs is alive to close it.",
    guidance="Start a worker that runs jobs. Until the run is closed, its experiment has no other job.",
    repair=CLOSE_RUN,
)
RUN_SHAPE = Rule(
    name="experiments.job_run_shape",
    kind=Kind.INCONSISTENT,
    severity=Severity.ERROR,
    table="job_runs",
    meaning="an unfinished run has a lease and a worker and no end; a finished one has an end and no lease.",
    arises="the CHECK was dropped, and a program wrote the row.",
    guidance="The repair closes an unfinished one as lost. Set the end of a finished one by hand, from the log.",
    repair=CLOSE_RUN,
)
RUN_SINGLE = Rule(
    name="experiments.job_run_single",
    kind=Kind.DUPLICATE,
    severity=Severity.CRITICAL,
    table="job_runs",
    meaning="an experiment has at most one unfinished run.",
    arises="the unique index is missing or damaged.",
    guidance="Close all but the one whose lease runs longest, then rebuild the index with REINDEX.",
    repair=CLOSE_RUN,
)
RUN_COUNTS = Rule(
    name="experiments.job_state",
    kind=Kind.STALE,
    severity=Severity.WARNING,
    table="job_states",
    meaning="`job_states` knows of every run in `job_runs`: of as many, and of the last success and failure.",
    arises="runs were written with the triggers off, or the row was deleted. Jobs then run too early or too late.",
    guidance="Repair it; the schedule follows by itself.",
    repair=COUNT_RUNS,
)
SNAPSHOT_FRESH = Rule(
    name="experiments.snapshot_fresh",
    kind=Kind.MISSING,
    severity=Severity.WARNING,
    table="experiments",
    meaning="a committed experiment whose time it is has a successful snapshot that is no more than 6 hours overdue.",
    arises="no worker runs jobs, or the analysis fails again and again.",
    guidance="`show_schedule` tells how the last run ended. The repair asks for one now, whatever failed before.",
    repair=ASK_FOR_SNAPSHOT,
)
OUTCOMES_FRESH = Rule(
    name="experiments.outcomes_fresh",
    kind=Kind.MISSING,
    severity=Severity.WARNING,
    table="experiments",
    meaning="pulls of outcomes and the failing of draws whose time is up are no more than 6 hours overdue.",
    arises="no worker runs jobs, or the job fails again and again.",
    guidance="`show_schedule` tells how the last run ended; start a worker that runs jobs, or mend the datasource.",
)
SNAPSHOT_SETTLED = Rule(
    name="experiments.snapshot_settled",
    kind=Kind.STALE,
    severity=Severity.WARNING,
    table="snapshots",
    meaning="a snapshot that was asked for is made, or has failed, within 6 hours.",
    arises="no worker runs jobs, or the experiment was abandoned meanwhile.",
    guidance="Start a worker that runs jobs. That of an abandoned experiment is never made: the repair fails it.",
    repair=FAIL_SNAPSHOT,
)
SNAPSHOT_SHAPE = Rule(
    name="experiments.snapshot_shape",
    kind=Kind.INCONSISTENT,
    severity=Severity.ERROR,
    table="snapshots",
    meaning="a successful snapshot has data, no other one has, and a failed one says why.",
    arises="a CHECK was dropped, and a program wrote the row.",
    guidance="Delete it: the next run makes another. What was known then cannot be made up afterwards.",
)


def job_runs(rows: Iterable[Row]) -> Iterator[Found]:
    names = ("status", "started_at", "finished_at", "lease_until", "worker_id")
    for row in rows:
        columns = {name: row[name] for name in names}
        broken = [
            (rule, expected)
            for rule, expected, is_broken in (
                (RUN_SHAPE, "an end or a lease, as the status wants it", row["undeclared"] or row["odd_columns"]),
                (RUN_SINGLE, "the only unfinished run of its experiment", row["beside_another"]),
                (RUN_CLOSED, "closed as lost", row["overdue"]),
            )
            if is_broken
        ]
        # One repair mends them all, so the first is told.
        for rule, expected in broken[:1]:
            yield Found(
                rule=rule.name,
                subject={"id": row["id"], "experiment_id": row["experiment_id"], "job": row["job"]},
                expected=expected,
                observed=columns,
                before=columns if row["status"] == "running" else None,
            )


def job_states(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        stored = {name: row[name] for name in ("runs", "succeeded_at", "failed_at")}
        yield Found(
            rule=RUN_COUNTS.name,
            subject={"experiment_id": row["experiment_id"], "job": row["job"]},
            expected={
                "runs_at_least": row["counted"],
                "succeeded_at": row["last_success"],
                "failed_at": row["last_failure"],
            },
            observed=stored,
            before=stored,
        )


def snapshots(rows: Iterable[Row]) -> Iterator[Found]:
    for row in rows:
        subject = {"id": row["id"], "experiment_id": row["experiment_id"]}
        if row["odd"]:
            yield Found(
                rule=SNAPSHOT_SHAPE.name,
                subject=subject,
                expected="data of a success, a message of a failure",
                observed={name: row[name] for name in ("status", "has_data", "has_message")},
            )
        elif row["waiting"]:
            is_abandoned = row["state"] == ExperimentState.ABANDONED
            yield Found(
                rule=SNAPSHOT_SETTLED.name,
                subject=subject,
                expected="success or failed",
                observed={"status": row["status"], "asked_for_at": row["created_at"], "experiment": row["state"]},
                before={"status": row["status"], "experiment": row["state"]} if is_abandoned else None,
            )


def upkeep(rows: Iterable[Row], *, intervals: Intervals) -> Iterator[Found]:
    for row in rows:
        job = Job(row["job"])
        due = next_due(job, _subject(row), History(succeeded_at=row["succeeded_at"]), intervals, now=row["now"])
        if due.at is None or max(due.at, row["changed_at"]) + GRACE >= row["now"]:
            continue
        rule = SNAPSHOT_FRESH if job is Job.SNAPSHOT else OUTCOMES_FRESH
        yield Found(
            rule=rule.name,
            subject={"id": row["id"], "job": job.value},
            expected={"succeeded_after": due.at},
            observed={"succeeded_at": row["succeeded_at"]},
            before={"state": row["state"], "succeeded_at": row["succeeded_at"]} if job is Job.SNAPSHOT else None,
        )


def checks(intervals: Intervals) -> tuple[Check, ...]:
    """``intervals`` are those that the workers are configured with."""
    return (
        Check(
            rules=(RUN_CLOSED, RUN_SHAPE, RUN_SINGLE),
            statement=statement("job_runs"),
            judge=job_runs,
            parameters={"overdue_seconds": LOST_SECONDS},
        ),
        Check(rules=(RUN_COUNTS,), statement=statement("job_states"), judge=job_states),
        Check(
            rules=(SNAPSHOT_FRESH, OUTCOMES_FRESH),
            statement=statement("upkeep"),
            judge=partial(upkeep, intervals=intervals),
        ),
        Check(
            rules=(SNAPSHOT_SETTLED, SNAPSHOT_SHAPE),
            statement=statement("snapshots"),
            judge=snapshots,
            parameters={"overdue_seconds": GRACE.total_seconds()},
        ),
    )


def _subject(row: Row) -> Subject:
    """Without what was asked for, which has a rule of its own, and without failures: an excuse makes nothing fresh."""
    oldest: datetime | None = row["oldest_pending"]
    return Subject(
        experiment_type=ExperimentType(row["experiment_type"]),
        state=ExperimentState(row["state"]),
        start_at=row["start_date"],
        end_at=row["end_date"],
        enable_autofail=row["enable_autofail"],
        autofail_window=timedelta(hours=row["autofail_window"]),
        oldest_pending_draw_at=oldest,
        snapshot_requested_at=None,
    )
