"""Which function does which job, as the settings say."""

from collections.abc import Mapping
from types import MappingProxyType

from django.conf import settings
from django.utils.module_loading import import_string

from experiments.jobs.run import JobFunction
from experiments.kinds import Job


def job_functions() -> Mapping[Job, JobFunction]:
    """The mapping that ``EXPERIMENTS["JOBS"]`` names by its dotted path. Raises ``ImportError`` when there is none."""
    functions: Mapping[Job, JobFunction] = import_string(str(settings.EXPERIMENTS["JOBS"]))
    return MappingProxyType(dict(functions))
