"""The one list of maintenance jobs: what runs for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from experiments.jobs.autofail import fail_expired
from experiments.jobs.run import JobFunction
from experiments.kinds import Job

JOBS: Mapping[Job, JobFunction] = MappingProxyType({Job.AUTOFAIL: fail_expired})
