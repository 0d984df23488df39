"""The settings of tests with real workers, with job functions that leave marks instead of the product's own."""

from tests.support.worker_settings import *  # noqa: F403
from xngin_worker.settings import EXPERIMENTS

EXPERIMENTS = {**EXPERIMENTS, "JOBS": "tests.support.work.job_functions.JOBS"}
