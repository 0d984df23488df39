"""Triggers on ``tasks``: illegal moves are refused, and workers hear of work that is due."""

import pgtrigger

from taskqueue import lifecycle
from taskqueue.lifecycle import Status

CHANNEL = "task_queue"
# By which a worker verifies that notifications still reach it; its payload names the worker's question.
ECHO_CHANNEL = "task_queue_echo"

# Both conditions stand in the trigger's WHEN, so that a legal update never calls a function.
_refuse_illegal_move = pgtrigger.Trigger(
    name="tasks_legal_move",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        f"OLD.status IS DISTINCT FROM NEW.status AND (OLD.status, NEW.status) NOT IN {lifecycle.sql_pairs()}"
    ),
    func="""
        RAISE EXCEPTION 'task % cannot move from % to %', OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tasks_legal_move', TABLE = 'tasks',
                  HINT = 'taskqueue/lifecycle.py lists the moves; resubmit makes a new task of a finished one.';
    """,
)

_refuse_stale_fence = pgtrigger.Trigger(
    name="tasks_fence_grows",
    level=pgtrigger.Row,
    when=pgtrigger.Before,
    operation=pgtrigger.Update,
    condition=pgtrigger.Condition(
        "NEW.attempt < OLD.attempt"
        f" OR (OLD.status = '{Status.PENDING}' AND NEW.status = '{Status.RUNNING}' AND NEW.attempt = OLD.attempt)"
    ),
    func="""
        RAISE EXCEPTION 'task %: attempt is the fence of a claim; it grows with each claim and never shrinks (% to %)',
            OLD.id, OLD.attempt, NEW.attempt
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tasks_fence_grows', TABLE = 'tasks';
    """,
)

# NOTIFY serialises commits over the whole server, so it is sent once a statement, only for work that can start now,
# and not at all where `taskqueue.notify` is off for the session, the role or the database.
_notify_wanted = pgtrigger.Condition("coalesce(current_setting('taskqueue.notify', true), 'on') <> 'off'")
_due_now = f"status = '{Status.PENDING}' AND embargo_until <= clock_timestamp()"

_notify_of_new = pgtrigger.Trigger(
    name="tasks_notify_insert",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Insert,
    referencing=pgtrigger.Referencing(new="new_rows"),
    condition=_notify_wanted,
    func=f"""
        IF EXISTS (SELECT FROM new_rows WHERE {_due_now}) THEN
            PERFORM pg_notify('{CHANNEL}', '');
        END IF;
        RETURN NULL;
    """,
)

_notify_of_returned = pgtrigger.Trigger(
    name="tasks_notify_update",
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    operation=pgtrigger.Update,
    referencing=pgtrigger.Referencing(old="old_rows", new="new_rows"),
    condition=_notify_wanted,
    # No join: of transition tables the planner knows no size, and a nested loop over them takes hours for 100,000 rows.
    func=f"""
        IF EXISTS (SELECT FROM new_rows WHERE {_due_now}) AND EXISTS (
            SELECT id FROM new_rows WHERE {_due_now} EXCEPT SELECT id FROM old_rows WHERE {_due_now}
        ) THEN
            PERFORM pg_notify('{CHANNEL}', '');
        END IF;
        RETURN NULL;
    """,  # noqa: S608 - put together from constants of this module
)

TASK_TRIGGERS = [_refuse_illegal_move, _refuse_stale_fence, _notify_of_new, _notify_of_returned]
