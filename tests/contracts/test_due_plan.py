"""The due query among many experiments: draws by the index of pending ones, and no work that grows with its square."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pytest_django import DjangoDbBlocker

from experiments.kinds import Job
from experiments.scheduler.due import Room, look_for_due
from experiments.scheduler.schedule import Intervals
from experiments.scheduler.statements import statement
from taskqueue.database import HASHING, Connection, Database
from tests.support.due_rows import EMPTY, FILL
from tests.support.plans import plan_of_text

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

_PARAMETERS = {
    "now": None,
    "horizon_seconds": 5.0,
    "jobs": [job.value for job in Job],
    "snapshot_seconds": 10_800.0,
    "pull_seconds": 14_400.0,
    "slots": 4,
    "datasource_slots": 2,
    "held_datasources": ["ds_1"],
}


@pytest.fixture(scope="module")
def session(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Connection]:
    """2,000 experiments with 100,000 draws, of which 20,000 are pending; the statistics are those of empty tables."""
    with django_db_blocker.unblock(), closing(Database(name="due", session=HASHING).open("test")) as session:
        session.execute("ANALYZE experiments, job_states, job_runs, snapshots, draws")
        for command in FILL.format(experiments=2000, draws=100_000).split(";\n"):
            session.execute(command.encode())
        yield session
        session.execute(EMPTY.encode())


@pytest.mark.parametrize("fresh_statistics", [False, True])
def test_the_due_query_probes_pending_draws_by_their_index(session: Connection, fresh_statistics: bool) -> None:
    with session.transaction(force_rollback=True):
        if fresh_statistics:
            session.execute("ANALYZE experiments, job_states, job_runs, snapshots, draws")

        plan = plan_of_text(session, statement("due"), _PARAMETERS)

    assert plan.rows == 4
    assert plan.scans_of("draws") == {"draws_pending"}
    # A plan is kept: one made while tables were empty must not scan them once they are full.
    assert plan.scans_of("job_states") <= {"job_states_pkey"}
    assert plan.scans_of("experiments") == {"experiments_committed"}
    # A few pages for each experiment: its row, its jobs' states, a descent to its oldest draw.
    assert plan.buffers < 15 * 2000


def test_what_it_finds_is_what_is_due(session: Connection) -> None:
    look = look_for_due(
        session,
        jobs=Job,
        intervals=Intervals(),
        room=Room(slots=100_000, datasource_slots=100_000),
        horizon_seconds=5.0,
    )
    # One in fifty has a snapshot of five hours ago.
    assert look.due == len(look.jobs) == 2000 // 50
