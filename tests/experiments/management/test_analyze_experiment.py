"""What an operator sees of an analysis: the numbers, or why there are none; nothing is stored."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from experiments.kinds import ExperimentType
from experiments.models import ArmAssignment, Experiment, JobRun, Snapshot
from tests.support.experiments import arms_of, make_datasource, make_experiment
from tests.support.job_runs import draw_many
from tests.support.warehouses import DuckDBFile

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment(settings: Settings, tmp_path: Path) -> Experiment:
    """Three participants; one metric is a number, one holds what no number is, one is not there."""
    settings.EXPERIMENTS = {**settings.EXPERIMENTS, "DUCKDB_FOLDER": tmp_path}
    server = DuckDBFile(tmp_path)
    rows = [("a", 1.0, float("nan")), ("b", 2.0, float("inf")), ("c", 3.0, None)]
    server.create("participants", {"id": "TEXT", "revenue": "DOUBLE", "odd": "DOUBLE"}, rows)
    experiment = make_experiment(
        ExperimentType.FREQ_ONLINE,
        metrics=("revenue", "odd", "absent"),
        datasource=make_datasource(config=server.config),
    )
    for arm, participant in zip((0, 0, 1), "abc", strict=True):
        ArmAssignment.objects.create(experiment=experiment, arm=arms_of(experiment)[arm], participant_id=participant)
    return experiment


def _run(*arguments: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("analyze_experiment", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def _strict(text: str) -> dict[str, Any]:
    """JSON as its standard says: without NaN and Infinity, which Python would read."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    read: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return read


def test_it_shows_each_metric_and_stores_nothing(experiment: Experiment) -> None:
    status, out, err = _run(experiment.id)
    assert (status, err) == (0, "")
    assert "3 assigned, 0 of them not in the warehouse" in out
    assert "effect 1.5 [no interval], p = -, 1 of 1 (error_not_estimable)" in out
    assert "cannot be analysed (column_missing): there is no column 'absent'" in out
    assert not Snapshot.objects.exists()
    assert not JobRun.objects.exists()


def test_json_is_what_a_snapshot_would_hold(experiment: Experiment) -> None:
    status, out, err = _run(experiment.id, "--json")
    assert (status, err) == (0, "")
    data = _strict(out)
    assert data["experiment_id"] == experiment.id
    revenue, odd, absent = data["metric_analyses"]
    assert [arm["mean"] for arm in revenue["arm_analyses"]] == [1.5, 3.0]
    assert [arm["n_non_finite"] for arm in odd["arm_analyses"]] == [2, 0]
    assert [arm["status"] for arm in odd["arm_analyses"]] == ["no_data", "no_data"]
    assert absent["error_code"] == "column_missing"
    assert not Snapshot.objects.exists()


@pytest.mark.parametrize("kind", [kind for kind in ExperimentType if kind.is_bandit])
def test_a_bandit_needs_no_warehouse(kind: ExperimentType) -> None:
    experiment = make_experiment(kind)
    draw_many(experiment, 5, contexts=3 if kind.has_contexts else 0)
    status, out, err = _run(experiment.id)
    assert (status, err) == (0, "")
    assert "5 draws, 0 outcomes (0 automatic)" in out
    assert len(_strict(_run(experiment.id, "--json")[1])["arm_analyses"]) == 2


def test_what_leaves_nothing_to_analyse_ends_with_1_and_a_reason(experiment: Experiment) -> None:
    Experiment.objects.filter(pk=experiment.pk).update(datasource_table="particpants")
    status, out, err = _run(experiment.id)
    assert (status, out) == (1, "")
    assert "there is no table 'particpants'" in err
    assert "'participants'" in err
    assert "(table_missing)" in err
    status, out, err = _run(experiment.id, "--json")
    assert (status, err) == (1, "")
    assert _strict(out)["problem"]["code"] == "table_missing"


def test_an_unknown_experiment_ends_with_1() -> None:
    status, _, err = _run("exp_absent")
    assert status == 1
    assert "there is no experiment 'exp_absent'" in err
