"""Triggers for the scheduler: they keep ``job_states``, and tell workers of what may have become due.

Draws tell nobody. What follows from one is due an hour later or more (autofail), or is found by the next regular look
(the first pull), which is a few seconds away; a notification for each draw would serialise the commits of the busiest
table. A changed datasource tells nobody either, since no due time follows from it.
"""

import pgtrigger

from experiments.kinds import ExperimentState

CHANNEL = "experiment_jobs"

_COUNTED = "('success', 'failed', 'lost')"

_COUNT = """
    INSERT INTO job_states AS state (experiment_id, job, runs, succeeded_at, failures, failed_at)
    VALUES (
        NEW.experiment_id, NEW.job, 1,
        CASE WHEN NEW.status = 'success' THEN NEW.started_at END,
        CASE WHEN NEW.status = 'success' THEN 0 ELSE 1 END,
        CASE WHEN NEW.status <> 'success' THEN NEW.finished_at END
    )
    ON CONFLICT (experiment_id, job) DO UPDATE SET
        runs = state.runs + 1,
        succeeded_at = greatest(state.succeeded_at, excluded.succeeded_at),
        failures = CASE WHEN NEW.status = 'success' THEN 0 ELSE least(state.failures, 2147483646) + 1 END,
        failed_at = greatest(state.failed_at, excluded.failed_at);
    RETURN NULL;
"""

JOB_STATE_TRIGGERS = [
    pgtrigger.Trigger(
        name="job_runs_count_insert",
        level=pgtrigger.Row,
        when=pgtrigger.After,
        operation=pgtrigger.Insert,
        condition=pgtrigger.Condition(f"NEW.status IN {_COUNTED}"),
        func=_COUNT,
    ),
    pgtrigger.Trigger(
        name="job_runs_count_end",
        level=pgtrigger.Row,
        when=pgtrigger.After,
        operation=pgtrigger.Update,
        condition=pgtrigger.Condition(f"OLD.status = 'running' AND NEW.status IN {_COUNTED}"),
        func=_COUNT,
    ),
]

# The same switch as the queue's: off for a session, a role or a database.
_notify_wanted = pgtrigger.Condition("coalesce(current_setting('taskqueue.notify', true), 'on') <> 'off'")


def _notify_if(found: str) -> str:
    return f"""
        IF {found} THEN
            PERFORM pg_notify('{CHANNEL}', '');
        END IF;
        RETURN NULL;
    """


# No joins: of transition tables the planner knows no size.
_PLANNED_BY = "id, state, datasource_id, start_date, end_date, enable_autofail, autofail_window"
_COMMITTED = f"state = '{ExperimentState.COMMITTED}'"

EXPERIMENT_WAKE_UPS = [
    pgtrigger.Trigger(
        name="experiments_notify_update",
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        operation=pgtrigger.Update,
        referencing=pgtrigger.Referencing(old="old_rows", new="new_rows"),
        condition=_notify_wanted,
        func=_notify_if(
            f"EXISTS (SELECT {_PLANNED_BY} FROM new_rows WHERE {_COMMITTED}"  # noqa: S608 - constants of this module
            f" EXCEPT SELECT {_PLANNED_BY} FROM old_rows WHERE {_COMMITTED})"
        ),
    )
]

SNAPSHOT_WAKE_UPS = [
    pgtrigger.Trigger(
        name="snapshots_notify_insert",
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        operation=pgtrigger.Insert,
        referencing=pgtrigger.Referencing(new="new_rows"),
        condition=_notify_wanted,
        func=_notify_if("EXISTS (SELECT FROM new_rows WHERE status = 'pending')"),
    ),
    pgtrigger.Trigger(
        name="snapshots_notify_update",
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        operation=pgtrigger.Update,
        referencing=pgtrigger.Referencing(old="old_rows", new="new_rows"),
        condition=_notify_wanted,
        func=_notify_if(
            "EXISTS (SELECT id FROM new_rows WHERE status = 'pending'"
            " EXCEPT SELECT id FROM old_rows WHERE status = 'pending')"
        ),
    ),
]
