"""Snapshots of all types: stored once, served to whoever asked, and when the warehouse fails, failed with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from experiments.errors import DatasourceError
from experiments.jobs.run import Outcome, RunCancelled, RunLost
from experiments.jobs.sessions import Sessions
from experiments.jobs.snapshots import take_snapshot
from experiments.kinds import ExperimentType, Job
from experiments.models import ArmAssignment, Experiment, Snapshot
from experiments.operations.record import record_outcomes
from experiments.warehouse.session import Warehouse
from tests.support.experiments import arms_of, make_experiment
from tests.support.job_runs import close_run, draw_many, open_run
from tests.support.warehouses import WarehouseServer

pytestmark = pytest.mark.django_db

_one_engine = pytest.mark.parametrize("warehouse", ["duckdb"], indirect=True)
_COLUMNS = {"id": "TEXT", "revenue": "DOUBLE PRECISION", "visits": "INTEGER"}


@pytest.fixture
def sessions(warehouse: WarehouseServer) -> Iterator[Sessions]:
    sessions = Sessions(lambda _: warehouse.open())
    yield sessions
    sessions.close_idle()


def _assigned(warehouse: WarehouseServer, **fields: Any) -> Experiment:
    """Forty participants in two arms, with two metrics."""
    clustered = fields.get("clustered", False)
    experiment = make_experiment(
        fields.pop("kind", ExperimentType.FREQ_ONLINE), metrics=fields.pop("metrics", ("revenue", "visits")), **fields
    )
    arms = arms_of(experiment)
    ArmAssignment.objects.bulk_create(
        ArmAssignment(
            experiment=experiment,
            arm=arms[n % 2],
            participant_id=f"p{n}",
            cluster_id=f"c{n % 10}" if clustered else None,
        )
        for n in range(40)
    )
    warehouse.create("participants", _COLUMNS, [(f"p{n}", n % 2 + n / 10, n % 3) for n in range(38)])
    return experiment


def _take(experiment: Experiment, sessions: Sessions) -> Outcome:
    run = open_run(experiment, Job.SNAPSHOT)
    try:
        return take_snapshot(run, sessions=sessions)
    finally:
        close_run(run)


def _data(snapshot: Snapshot) -> dict[str, Any]:
    assert isinstance(snapshot.data, dict)
    return snapshot.data


def _broken(snapshot: Snapshot) -> dict[str, Any]:
    return {
        metric["metric_name"]: metric["failed_since"]
        for metric in _data(snapshot)["metric_analyses"]
        if metric["status"] == "failed"
    }


@_one_engine
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ExperimentType.FREQ_PREASSIGNED, {}),
        (ExperimentType.FREQ_ONLINE, {}),
        (ExperimentType.FREQ_ONLINE, {"clustered": True}),
    ],
)
def test_an_ab_experiment_is_analysed(
    kind: ExperimentType, fields: dict[str, Any], warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _assigned(warehouse, kind=kind, **fields)

    outcome = _take(experiment, sessions)

    assert outcome == Outcome(
        counts={"snapshots": 1, "assigned": 40, "not_in_warehouse": 2, "metrics": 2, "metrics_failed": 0}
    )
    snapshot = Snapshot.objects.get()
    assert (snapshot.experiment_id, snapshot.status, snapshot.message) == (experiment.id, "success", None)
    assert _data(snapshot)["experiment_type"] == kind
    treatment = _data(snapshot)["metric_analyses"][0]["arm_analyses"][1]
    assert treatment["estimate"] == pytest.approx(1.1)


@pytest.mark.parametrize("kind", [kind for kind in ExperimentType if kind.is_bandit])
def test_a_bandit_is_analysed_without_its_warehouse(kind: ExperimentType) -> None:
    experiment = make_experiment(kind)
    draw_many(experiment, 30, contexts=3 if kind.has_contexts else 0)
    record_outcomes(experiment.id, {f"p{n}": n % 2 for n in range(1, 21)})

    outcome = _take(experiment, Sessions(_no_session))

    assert outcome == Outcome(counts={"snapshots": 1, "draws": 30, "outcomes": 20})
    snapshot = Snapshot.objects.get()
    assert snapshot.run_id is not None
    assert _data(snapshot)["counts"]["n_pending"] == 10
    arms = _data(snapshot)["arm_analyses"]
    assert sum(arm["p_best"] for arm in arms) == pytest.approx(1)
    if kind.has_contexts:
        assert _data(snapshot)["method"]["averaged_over"] == "contexts of all draws"


def test_all_pending_rows_are_served_by_one_analysis() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    wanted = [Snapshot.objects.create(experiment=experiment) for _ in range(3)]
    other = Snapshot.objects.create(experiment=make_experiment(ExperimentType.MAB_ONLINE))

    assert _take(experiment, Sessions(_no_session)).counts["snapshots"] == 3

    served = list(Snapshot.objects.filter(experiment=experiment))
    assert {row.id for row in served} == {row.id for row in wanted}
    assert {row.status for row in served} == {"success"}
    assert served[0].data == served[1].data == served[2].data
    other.refresh_from_db()
    assert other.status == "pending"


@_one_engine
def test_a_row_that_was_inserted_after_the_analysis_began_waits_for_the_next(warehouse: WarehouseServer) -> None:
    experiment = _assigned(warehouse)
    first = Snapshot.objects.create(experiment=experiment)

    def meanwhile(_: str) -> Warehouse:
        Snapshot.objects.create(experiment=experiment)
        return warehouse.open()

    _take(experiment, Sessions(meanwhile))

    (waiting,) = Snapshot.objects.exclude(pk=first.pk)
    assert waiting.status == "pending"


@_one_engine
def test_a_row_that_vanished_meanwhile_is_replaced(warehouse: WarehouseServer) -> None:
    experiment = _assigned(warehouse)
    gone = Snapshot.objects.create(experiment=experiment)

    def meanwhile(_: str) -> Warehouse:
        Snapshot.objects.all().delete()
        return warehouse.open()

    _take(experiment, Sessions(meanwhile))

    snapshot = Snapshot.objects.get()
    assert (snapshot.status, snapshot.id != gone.id) == ("success", True)


def test_a_lost_column_breaks_its_metric_only_and_the_snapshot_says_since_when(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _assigned(warehouse)
    _take(experiment, sessions)
    warehouse.execute("ALTER TABLE participants RENAME COLUMN revenue TO income")

    first = _take(experiment, sessions)
    _age_snapshots()
    second = _take(experiment, sessions)

    assert first.message == second.message
    assert first.message is not None
    assert "the metric 'revenue' could not be analysed since " in first.message
    assert "column_missing: there is no column 'revenue'" in first.message
    assert "'income'" in first.message
    assert first.counts["metrics_failed"] == 1
    whole, early, late = Snapshot.objects.order_by("created_at")
    assert whole.message is None
    assert (early.status, late.status, late.message) == ("success", "success", second.message)
    assert _broken(late) == _broken(early) == {"revenue": _data(early)["analyzed_at"]}
    metric = _data(late)["metric_analyses"][0]
    assert metric["arm_analyses"][1]["estimate"] is None
    assert _data(late)["metric_analyses"][1]["status"] == "analyzed"


@_one_engine
def test_a_metric_that_came_back_and_broke_again_is_broken_since_then(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _assigned(warehouse)
    for old, new in (("revenue", "income"), ("income", "revenue"), ("revenue", "income")):
        warehouse.execute(f"ALTER TABLE participants RENAME COLUMN {old} TO {new}")
        _age_snapshots()
        _take(experiment, sessions)

    first, whole, last = Snapshot.objects.order_by("created_at")
    assert _broken(first) == {"revenue": _data(first)["analyzed_at"]}
    assert _broken(whole) == {}
    assert _broken(last) == {"revenue": _data(last)["analyzed_at"]}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("ALTER TABLE participants RENAME TO people", "table_missing", "'people'"),
        ("ALTER TABLE participants RENAME COLUMN id TO user_id", "column_missing", "'user_id'"),
        ("ALTER TABLE participants DROP COLUMN revenue", "column_missing", "no metric could be analysed"),
    ],
)
def test_what_leaves_nothing_to_analyse_fails_the_snapshot_and_the_run(
    change: str, code: str, words: str, warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _assigned(warehouse, metrics=("revenue",))
    _take(experiment, sessions)
    warehouse.execute(change)

    with pytest.raises(DatasourceError) as failure:
        _take(experiment, sessions)

    assert failure.value.code == code
    assert words in str(failure.value)
    failed = Snapshot.objects.get(status="failed")
    assert failed.message == f"{code}: {failure.value}"
    assert failed.data is None
    assert failed.run_id is not None


def test_a_failure_serves_what_is_pending() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    wanted = [Snapshot.objects.create(experiment=experiment) for _ in range(2)]

    with pytest.raises(DatasourceError):
        _take(experiment, Sessions(_no_session))

    served = {row.id: (row.status, row.message) for row in Snapshot.objects.all()}
    assert served == {row.id: ("failed", "connection_failed: nobody is there, password=***") for row in wanted}


def test_a_bug_is_a_failed_snapshot_too() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)

    def broken(_: str) -> Warehouse:
        raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError):
        _take(experiment, Sessions(broken))

    assert Snapshot.objects.get().message == "ZeroDivisionError: oops"


@_one_engine
def test_a_run_that_is_told_to_stop_leaves_the_wish_pending(warehouse: WarehouseServer) -> None:
    experiment = _assigned(warehouse)
    Snapshot.objects.create(experiment=experiment)
    run = open_run(experiment, Job.SNAPSHOT)

    def stop(_: str) -> Warehouse:
        run.cancellation.stop("its worker is stopping")
        return warehouse.open()

    with pytest.raises(RunCancelled, match="its worker is stopping"):
        take_snapshot(run, sessions=Sessions(stop))

    assert Snapshot.objects.get().status == "pending"


def test_a_run_that_was_closed_by_another_worker_stores_nothing() -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    run = open_run(experiment, Job.SNAPSHOT)
    close_run(run)

    with pytest.raises(RunLost):
        take_snapshot(run, sessions=Sessions(_no_session))

    assert not Snapshot.objects.exists()


def _no_session(_: str) -> Warehouse:
    raise DatasourceError("nobody is there, password=hunter2hunter2", code="connection_failed")


def _age_snapshots() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE snapshots SET created_at = created_at - interval '3 hours'")
