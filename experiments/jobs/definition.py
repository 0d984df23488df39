"""What an experiment is, read once before the work begins, so that no transaction stays open during it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from experiments.errors import InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType, FieldUse, PriorType, RewardType
from experiments.models import Arm, Context, Experiment, ExperimentField


@dataclass(frozen=True, kw_only=True)
class ArmDefinition:
    """``index`` counts from 0 in the order of positions; it is what statistics and warehouses know of an arm."""

    id: str
    index: int
    name: str
    weight: float
    alpha_init: float | None
    beta_init: float | None
    mu_init: float | None
    sigma_init: float | None


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The first arm is the baseline."""

    id: str
    name: str
    experiment_type: ExperimentType
    state: ExperimentState
    start_date: datetime
    end_date: datetime
    alpha: float
    power: float
    desired_n: int | None
    clustered: bool
    prior_type: PriorType | None
    reward_type: RewardType | None
    noise_sd: float | None
    datasource_id: str
    table: str | None
    unique_id: str | None
    metrics: tuple[str, ...]
    contexts: tuple[str, ...]
    arms: tuple[ArmDefinition, ...]

    @property
    def arm_index(self) -> dict[str, int]:
        return {arm.id: arm.index for arm in self.arms}

    @property
    def warehouse_table(self) -> str:
        """Raises ``InvalidInput`` when the experiment names none."""
        if not self.table:
            raise InvalidInput(f"{self.id} names no table of its datasource", field="datasource_table")
        return self.table

    @property
    def warehouse_id(self) -> str:
        """The column with the participants' ids. Raises ``InvalidInput`` when the experiment names none."""
        if not self.unique_id:
            raise InvalidInput(f"{self.id} names no column with the participants' ids (use unique_id)", field="fields")
        return self.unique_id


def read_definition(experiment_id: str) -> Definition:
    """Raises ``NotFound``, and ``InvalidInput`` for an experiment without arms."""
    try:
        row = Experiment.objects.get(pk=experiment_id)
    except Experiment.DoesNotExist as error:
        raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment") from error
    fields = list(ExperimentField.objects.filter(experiment=row).order_by("position", "id"))
    arms = tuple(_arm(index, arm) for index, arm in enumerate(Arm.objects.filter(experiment=row).order_by("position")))
    if not arms:
        raise InvalidInput(f"{experiment_id} has no arms", field="arms")
    return Definition(
        id=row.id,
        name=row.name,
        experiment_type=ExperimentType(row.experiment_type),
        state=ExperimentState(row.state),
        start_date=row.start_date,
        end_date=row.end_date,
        alpha=row.alpha,
        power=row.power,
        desired_n=row.desired_n,
        clustered=row.clustered,
        prior_type=PriorType(row.prior_type) if row.prior_type else None,
        reward_type=RewardType(row.reward_type) if row.reward_type else None,
        noise_sd=row.noise_sd,
        datasource_id=row.datasource_id,
        table=row.datasource_table,
        unique_id=next((field.field_name for field in fields if field.use == FieldUse.UNIQUE_ID), None),
        metrics=tuple(field.field_name for field in fields if field.use == FieldUse.METRIC),
        contexts=tuple(Context.objects.filter(experiment=row).order_by("position").values_list("name", flat=True)),
        arms=arms,
    )


def _arm(index: int, row: Arm) -> ArmDefinition:
    return ArmDefinition(
        id=row.id,
        index=index,
        name=row.name,
        weight=row.arm_weight,
        alpha_init=row.alpha_init,
        beta_init=row.beta_init,
        mu_init=row.mu_init,
        sigma_init=row.sigma_init,
    )
