"""What may have made a job due wakes the workers, once a statement, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

import pytest

from experiments.kinds import ExperimentState, ExperimentType
from experiments.models.schedule_triggers import CHANNEL
from taskqueue.database import Connection
from tests.support.experiments import make_experiment
from tests.support.sessions import sessions

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session() -> Iterator[Connection]:
    """A session that listens, in a database with a committed experiment and one that is not."""
    make_experiment(ExperimentType.MAB_ONLINE, name="committed")
    make_experiment(ExperimentType.MAB_ONLINE, name="assigned", state=ExperimentState.ASSIGNED)
    with sessions() as connect:
        connection = connect()
        connection.execute(f"LISTEN {CHANNEL}")
        yield connection


@pytest.mark.parametrize(
    ("statement", "notified"),
    [
        ("UPDATE experiments SET state = 'committed' WHERE name = 'assigned'", True),
        ("UPDATE experiments SET start_date = start_date - interval '1 s' WHERE name = 'committed'", True),
        ("UPDATE experiments SET end_date = end_date + interval '1 s'", True),
        ("UPDATE experiments SET enable_autofail = true WHERE name = 'committed'", True),
        ("UPDATE experiments SET autofail_window = 1 WHERE name = 'committed'", True),
        ("UPDATE experiments SET description = 'new'", False),
        ("UPDATE experiments SET end_date = end_date", False),
        ("UPDATE experiments SET end_date = end_date + interval '1 s' WHERE name = 'assigned'", False),
        ("UPDATE experiments SET state = 'abandoned' WHERE name = 'committed'", False),
        ("INSERT INTO snapshots (experiment_id) SELECT id FROM experiments", True),
        (
            "INSERT INTO snapshots (experiment_id, status, message) SELECT id, 'failed', 'no' FROM experiments",
            False,
        ),
        (
            "INSERT INTO draws (experiment_id, participant_id, arm_id) SELECT e.id, 'p', a.id FROM experiments e"
            " JOIN arms a ON a.experiment_id = e.id AND a.position = 1 WHERE e.state = 'committed'",
            False,
        ),
        ("UPDATE datasources SET name = 'other'", False),
    ],
)
def test_a_statement_notifies_once_when_a_job_may_be_due(
    session: Connection, statement: LiteralString, notified: bool
) -> None:
    session.execute(statement)

    assert _heard(session) == [""] * notified


def test_a_snapshot_that_is_asked_for_again_wakes(session: Connection) -> None:
    session.execute("INSERT INTO snapshots (experiment_id, status, message) SELECT id, 'failed', 'no' FROM experiments")
    session.execute("UPDATE snapshots SET status = 'pending'")
    session.execute("UPDATE snapshots SET message = 'again'")

    assert _heard(session) == [""]


def test_a_session_may_switch_these_wake_ups_off_with_the_queues(session: Connection) -> None:
    session.execute("SET taskqueue.notify = off")
    session.execute("INSERT INTO snapshots (experiment_id) SELECT id FROM experiments")
    session.execute("UPDATE experiments SET end_date = end_date + interval '1 s'")

    assert _heard(session) == []


def _heard(session: Connection) -> list[str]:
    # One's own notifications arrive in the order of their commits; the mark bounds the wait.
    session.execute("SELECT pg_notify(%s, 'mark')", [CHANNEL])
    heard: list[str] = []
    for notification in session.notifies(timeout=20):
        if notification.payload == "mark":
            return heard
        heard.append(notification.payload)
    raise AssertionError("the mark did not come back")
