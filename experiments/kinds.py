"""The kinds of experiments, priors, rewards and states, and what each type does. Words only."""

from enum import StrEnum


class ExperimentType(StrEnum):
    FREQ_PREASSIGNED = "freq_preassigned"
    FREQ_ONLINE = "freq_online"
    MAB_ONLINE = "mab_online"
    MAB_ONLINE_DWH = "mab_online_dwh"
    CMAB_ONLINE = "cmab_online"

    @property
    def is_bandit(self) -> bool:
        """Participants are drawn from posteriors; the others are assigned by weights."""
        return self in _BANDITS

    @property
    def has_contexts(self) -> bool:
        return self is ExperimentType.CMAB_ONLINE

    @property
    def reads_warehouse(self) -> bool:
        """Outcomes come from the datasource, not from callers."""
        return self is ExperimentType.MAB_ONLINE_DWH or not self.is_bandit


_BANDITS = frozenset({ExperimentType.MAB_ONLINE, ExperimentType.MAB_ONLINE_DWH, ExperimentType.CMAB_ONLINE})


class ExperimentState(StrEnum):
    ASSIGNED = "assigned"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class PriorType(StrEnum):
    BETA = "beta"
    NORMAL = "normal"


class RewardType(StrEnum):
    BINARY = "binary"
    REAL_VALUED = "real-valued"


class FieldUse(StrEnum):
    """What a column of the datasource's table is for in an experiment."""

    UNIQUE_ID = "unique_id"
    METRIC = "metric"
    STRATUM = "stratum"
    CLUSTER = "cluster"
    FILTER = "filter"


class Job(StrEnum):
    """The maintenance jobs that keep an experiment up to date."""

    SNAPSHOT = "snapshot"
    DWH_PULL = "dwh_pull"
    AUTOFAIL = "autofail"

    def applies_to(self, experiment_type: ExperimentType) -> bool:
        return experiment_type in _JOBS[self]


_JOBS = {
    Job.SNAPSHOT: frozenset(ExperimentType),
    Job.DWH_PULL: frozenset({ExperimentType.MAB_ONLINE_DWH}),
    Job.AUTOFAIL: frozenset({ExperimentType.MAB_ONLINE, ExperimentType.CMAB_ONLINE}),
}
