"""The one list of maintenance jobs: what runs for each kind, with the sessions that all of them share.

A job's module is imported when it first runs: numerical libraries and SQL builders take seconds that the start of a
process, and one that works on tasks only, need not wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from experiments.jobs.run import JobFunction, Outcome, Run
from experiments.jobs.sessions import Sessions
from experiments.kinds import Job
from experiments.warehouse.session import Warehouse


def _open(datasource_id: str) -> Warehouse:
    from experiments.operations.datasources import open_datasource

    return open_datasource(datasource_id)


SESSIONS = Sessions(_open)


def _snapshot(run: Run) -> Outcome:
    from experiments.jobs.snapshots import take_snapshot

    return take_snapshot(run, sessions=SESSIONS)


def _dwh_pull(run: Run) -> Outcome:
    from experiments.jobs.outcome_pull import pull_outcomes

    return pull_outcomes(run, sessions=SESSIONS)


def _autofail(run: Run) -> Outcome:
    from experiments.jobs.autofail import fail_expired

    return fail_expired(run)


JOBS: Mapping[Job, JobFunction] = MappingProxyType(
    {Job.SNAPSHOT: _snapshot, Job.DWH_PULL: _dwh_pull, Job.AUTOFAIL: _autofail}
)
