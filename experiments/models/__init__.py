"""Tables of experiments. Other programs use them with plain SQL: names are set, and every default is the database's."""

from experiments.models.arm import Arm
from experiments.models.assignment import ArmAssignment
from experiments.models.context import Context
from experiments.models.datasource import Datasource
from experiments.models.draw import Draw
from experiments.models.experiment import Experiment
from experiments.models.field import ExperimentField
from experiments.models.filter import ExperimentFilter, FilterRelation
from experiments.models.job_run import JobRun, RunStatus
from experiments.models.job_state import JobState
from experiments.models.organization import Organization
from experiments.models.snapshot import Snapshot, SnapshotStatus
from experiments.models.webhook_link import ExperimentWebhook

__all__ = [
    "Arm",
    "ArmAssignment",
    "Context",
    "Datasource",
    "Draw",
    "Experiment",
    "ExperimentField",
    "ExperimentFilter",
    "ExperimentWebhook",
    "FilterRelation",
    "JobRun",
    "JobState",
    "Organization",
    "RunStatus",
    "Snapshot",
    "SnapshotStatus",
]
