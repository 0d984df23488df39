"""Every reference case through the real thing: assignments in our tables, outcomes in a warehouse that aggregates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from experiments.jobs import frequentist
from experiments.jobs.definition import read_definition
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import ArmAssignment, Experiment
from experiments.stats.results import MetricResult
from tests.support import golden
from tests.support.experiments import arms_of, make_experiment
from tests.support.golden_frequentist import assert_metric
from tests.support.warehouses import WarehouseServer

_TYPES = {"numeric": "DOUBLE PRECISION", "integer": "BIGINT", "boolean": "BOOLEAN"}


@pytest.mark.django_db
@pytest.mark.parametrize("case", golden.load("frequentist"), ids=str)
def test_reference_case_is_met_by_sums_of_the_warehouse(case: golden.Case, warehouse: WarehouseServer) -> None:
    metrics = list(case.inputs["metrics"])
    _fill(warehouse, case)
    experiment = _experiment(case, warehouse)
    definition = read_definition(experiment.id)
    with warehouse.open() as session:
        analysis = frequentist.analyze(definition, session)
    assert [metric.name for metric in analysis.metrics] == metrics
    for metric in analysis.metrics:
        assert metric.result is not None, metric.reason
        assert_metric(case, metric.name, _in_order_of(case, experiment, metric.result))


def _in_order_of(case: golden.Case, experiment: Experiment, result: MetricResult) -> MetricResult:
    names = [arm.name for arm in arms_of(experiment)]
    return replace(result, arms=tuple(result.arms[names.index(name)] for name in case.inputs["arms"]))


def _fill(warehouse: WarehouseServer, case: golden.Case) -> None:
    rows: dict[str, list[Any]] = case.inputs["warehouse"]
    columns = {"participant_id": "TEXT"} | {name: _TYPES[kind] for name, kind in case.inputs["metrics"].items()}
    values = [[golden.outcome(entry) for entry in rows[name]] for name in columns]
    warehouse.create("participants", columns, zip(*values, strict=True))


def _experiment(case: golden.Case, warehouse: WarehouseServer) -> Experiment:
    inputs = case.inputs
    names = [inputs["baseline_arm"], *(name for name in inputs["arms"] if name != inputs["baseline_arm"])]
    start = datetime.now(UTC)
    experiment = make_experiment(
        ExperimentType(inputs["experiment_type"]),
        arms=[{"name": name} for name in names],
        metrics=list(inputs["metrics"]),
        unique_id="participant_id",
        state=ExperimentState.ASSIGNED,
        alpha=inputs["alpha"],
        clustered=inputs["clustered"],
        start_date=start,
        end_date=start + timedelta(days=1),
    )
    arms = {arm.name: arm.id for arm in arms_of(experiment)}
    assigned = inputs["assignments"]
    clusters = [str(cluster) for cluster in assigned["cluster"]] if inputs["clustered"] else None
    ArmAssignment.objects.bulk_create(
        ArmAssignment(
            experiment_id=experiment.id,
            participant_id=participant,
            arm_id=arms[arm],
            cluster_id=clusters[index] if clusters else None,
        )
        for index, (participant, arm) in enumerate(zip(assigned["participant_id"], assigned["arm"], strict=True))
    )
    return experiment
