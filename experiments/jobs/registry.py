"""The one list of maintenance jobs: what runs for each kind, with the sessions that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from experiments.jobs.autofail import fail_expired
from experiments.jobs.outcome_pull import pull_outcomes
from experiments.jobs.run import JobFunction
from experiments.jobs.sessions import Sessions
from experiments.jobs.snapshots import take_snapshot
from experiments.kinds import Job
from experiments.operations.datasources import open_datasource

SESSIONS = Sessions(open_datasource)

JOBS: Mapping[Job, JobFunction] = MappingProxyType(
    {
        Job.SNAPSHOT: partial(take_snapshot, sessions=SESSIONS),
        Job.DWH_PULL: partial(pull_outcomes, sessions=SESSIONS),
        Job.AUTOFAIL: fail_expired,
    }
)
