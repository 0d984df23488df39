"""Outcomes from real warehouses: right ones are recorded exactly once, wrong ones are told and stop nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from experiments.errors import DatasourceError, InvalidInput
from experiments.jobs.outcome_pull import pull_outcomes
from experiments.jobs.run import Outcome, RunCancelled, RunLost
from experiments.jobs.sessions import Sessions
from experiments.kinds import ExperimentType, Job
from experiments.models import Draw, Experiment
from experiments.operations.posteriors import recompute_posteriors
from experiments.operations.record import record_outcome
from experiments.warehouse.columns import Column
from experiments.warehouse.names import Relation
from experiments.warehouse.session import Limits, Warehouse
from tests.support.experiments import arms_of, make_experiment
from tests.support.job_runs import close_run, draw, draw_many, open_run, outcomes_of
from tests.support.warehouses import WarehouseServer

pytestmark = pytest.mark.django_db

_DWH = ExperimentType.MAB_ONLINE_DWH
_one_engine = pytest.mark.parametrize("warehouse", ["duckdb"], indirect=True)

type Rows = list[tuple[object, ...]]

_REAL = {"prior_type": "normal", "reward_type": "real-valued"}


@pytest.fixture
def sessions(warehouse: WarehouseServer) -> Iterator[Sessions]:
    sessions = Sessions(lambda _: warehouse.open())
    yield sessions
    sessions.close_idle()


def _experiment(participants: Sequence[str], **fields: Any) -> Experiment:
    experiment = make_experiment(_DWH, **fields)
    draw(experiment, participants)
    return experiment


def _pull(experiment: Experiment, sessions: Sessions) -> Outcome:
    run = open_run(experiment, Job.DWH_PULL)
    try:
        return pull_outcomes(run, sessions=sessions)
    finally:
        close_run(run)
        sessions.close_idle()


def _counts(**counts: int) -> dict[str, int]:
    names = ("pending", "recorded", "already_had", "not_in_warehouse", "null", "refused", "conflicts")
    return {name: counts.pop(name, 0) for name in names} | counts


def test_outcomes_are_recorded_and_a_second_pull_changes_nothing(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _experiment(["1", "2", "3", "4", "x"])
    rows = [(1, 1.0), (2, 0.0), (3, None), (99, 1.0)]
    warehouse.create("participants", {"id": "BIGINT", "revenue": "DOUBLE PRECISION"}, rows)

    outcome = _pull(experiment, sessions)

    assert outcome.message is None
    assert outcome.counts == _counts(pending=5, recorded=2, not_in_warehouse=2, null=1)
    assert outcomes_of(experiment) == {"1": 1.0, "2": 0.0, "3": None, "4": None, "x": None}
    before = list(Draw.objects.order_by("participant_id").values())
    baseline = arms_of(experiment)[0]
    assert (baseline.alpha, baseline.beta, baseline.n_outcomes) == (2.0, 2.0, 2)

    assert _pull(experiment, sessions).counts == _counts(pending=3, not_in_warehouse=2, null=1)

    assert list(Draw.objects.order_by("participant_id").values()) == before
    assert arms_of(experiment)[0].updated_at == baseline.updated_at


def test_wrong_values_of_a_binary_reward_are_told_one_by_one_and_the_rest_counts(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    values = {"half": 0.5, "two": 2.0, "minus": -1.0, "nan": "NaN", "inf": "Infinity", "null": None, "yes": 1, "no": 0}
    experiment = _experiment([*values, "both"])
    rows = [*values.items(), ("both", 0), ("both", 1), ("yes", 1)]
    warehouse.create("participants", {"id": "TEXT", "revenue": "DOUBLE PRECISION"}, rows)

    outcome = _pull(experiment, sessions)

    assert outcome.counts == _counts(pending=9, recorded=2, null=1, refused=6)
    assert outcome.message is not None
    beginning, *told = outcome.message.replace("recorded: ", "recorded; ").split("; ")
    assert beginning == "6 of 9 outcomes were not recorded"
    assert sorted(told) == [
        "'both': its 2 rows in the warehouse do not agree",
        "'half': the reward is binary: an outcome must be 0 or 1, not 0.5",
        "'inf': an outcome must be a finite number, not NaN or infinity",
        "'minus': the reward is binary: an outcome must be 0 or 1, not -1.0",
        "'nan': an outcome must be a finite number, not NaN or infinity",
        "'two': the reward is binary: an outcome must be 0 or 1, not 2.0",
    ]
    found = {name: outcome for name, outcome in outcomes_of(experiment).items() if outcome is not None}
    assert found == {"yes": 1.0, "no": 0.0}
    baseline = arms_of(experiment)[0]
    assert (baseline.alpha, baseline.beta) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("native", "value", "recorded"),
    [
        ("BOOLEAN", True, 1.0),
        ("INTEGER", 1, 1.0),
        ("DECIMAL(20, 4)", Decimal("1.0000"), 1.0),
        ("TEXT", "1", None),
    ],
)
def test_booleans_and_numbers_count_and_text_does_not(
    native: str, value: object, recorded: float | None, warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _experiment(["p"])
    warehouse.create("participants", {"id": "TEXT", "revenue": native}, [("p", value)])

    outcome = _pull(experiment, sessions)

    assert outcomes_of(experiment) == {"p": recorded}
    if recorded is None:
        assert outcome.message == "1 of 1 outcomes were not recorded: 'p': an outcome must be a finite number, not '1'"


def test_real_values_keep_their_digits(warehouse: WarehouseServer, sessions: Sessions) -> None:
    values = {"a": Decimal("0.1"), "b": Decimal("-123456789012345.678"), "c": Decimal(0)}
    experiment = _experiment(list(values), **_REAL)
    warehouse.create("participants", {"id": "TEXT", "revenue": "DECIMAL(30, 10)"}, values.items())

    _pull(experiment, sessions)

    assert outcomes_of(experiment) == {name: float(value) for name, value in values.items()}
    assert recompute_posteriors(experiment.id).changed == ()


@_one_engine
def test_only_so_many_participants_are_told_of_and_the_rest_counted(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = make_experiment(_DWH)
    draw_many(experiment, 120)
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [(f"p{n}", 7) for n in range(1, 121)])

    outcome = _pull(experiment, sessions)

    assert outcome.counts["refused"] == 120
    assert outcome.message is not None
    assert outcome.message.count("must be 0 or 1, not 7") == 50
    assert outcome.message.endswith("; and 70 more")
    assert len(outcome.message.encode()) < 4_000


@_one_engine
def test_two_draws_that_mean_the_same_row_are_told_and_neither_gets_it(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    lower = "0b1e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4"
    other = "11111111-2222-4333-8444-555555555555"
    experiment = _experiment([lower, lower.upper(), other])
    warehouse.create("participants", {"id": "UUID", "revenue": "INTEGER"}, [(lower, 1), (other, 1)])

    outcome = _pull(experiment, sessions)

    assert outcomes_of(experiment) == {lower: None, lower.upper(): None, other: 1.0}
    assert outcome.counts == _counts(pending=3, recorded=1, refused=2)
    assert "another draw has the same id in other capitals" in (outcome.message or "")


@_one_engine
def test_an_outcome_that_another_recorded_meanwhile_stays_and_is_told(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _experiment(["p", "q"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [("p", 1), ("q", 1)])

    def meanwhile(rows: Rows) -> Rows:
        record_outcome(experiment.id, "p", 0)
        return rows

    outcome = _pull(experiment, Sessions(lambda _: _Answering(warehouse.open(), meanwhile)))

    assert outcome.counts == _counts(pending=2, recorded=1, conflicts=1)
    assert "'p': the outcome 0 was recorded before and stays; 1 is another" in (outcome.message or "")
    assert outcomes_of(experiment) == {"p": 0.0, "q": 1.0}


@_one_engine
def test_a_million_rows_of_others_do_not_matter(warehouse: WarehouseServer, sessions: Sessions) -> None:
    experiment = _experiment(["p"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [("p", 1)])
    warehouse.execute("INSERT INTO participants SELECT 'u' || n, 1 FROM generate_series(1, 1000000) AS many (n)")
    strangers: Rows = [(f"u{n}", 1, 1, 1, 0) for n in range(50_000)]

    outcome = _pull(experiment, Sessions(lambda _: _Answering(warehouse.open(), lambda rows: rows + strangers)))

    assert outcome.counts == _counts(pending=1, recorded=1)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ("ALTER TABLE participants RENAME COLUMN revenue TO income", "column_missing", "its columns are .*'income'"),
        ("ALTER TABLE participants RENAME COLUMN id TO user_id", "column_missing", "its columns are .*'user_id'"),
        ("ALTER TABLE participants RENAME TO people", "table_missing", "its tables are .*'people'"),
    ],
)
def test_what_the_warehouse_lost_is_named_with_what_it_has(
    change: str, code: str, message: str, warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _experiment(["p", "q"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [("p", 1)])
    _pull(experiment, sessions)
    warehouse.execute(change)

    with pytest.raises(DatasourceError, match=message) as failure:
        _pull(experiment, sessions)

    assert failure.value.code == code
    assert outcomes_of(experiment) == {"p": 1.0, "q": None}


def test_a_column_that_holds_no_numbers_fails_the_run(warehouse: WarehouseServer, sessions: Sessions) -> None:
    experiment = _experiment(["p"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "DATE"}, [("p", "2027-01-01")])

    with pytest.raises(DatasourceError) as failure:
        _pull(experiment, sessions)

    assert failure.value.code == "metric_type_unsupported"


@_one_engine
def test_more_rows_than_the_limit_fail_the_run_and_say_so(warehouse: WarehouseServer) -> None:
    experiment = _experiment(["p", "q", "r", "s", "t"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [(name, 1) for name in "pqrst"])

    with pytest.raises(DatasourceError, match="returned more than 4 rows"):
        _pull(experiment, Sessions(lambda _: warehouse.open(Limits(rows=4))))

    assert set(outcomes_of(experiment).values()) == {None}


@_one_engine
def test_a_run_that_is_told_to_stop_says_why(warehouse: WarehouseServer, sessions: Sessions) -> None:
    experiment = _experiment(["p"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [("p", 1)])
    run = open_run(experiment, Job.DWH_PULL)

    def stop(_: str) -> Warehouse:
        run.cancellation.stop("its worker is stopping")
        return warehouse.open()

    with pytest.raises(RunCancelled, match="its worker is stopping"):
        pull_outcomes(run, sessions=Sessions(stop))

    assert outcomes_of(experiment) == {"p": None}


@_one_engine
def test_a_run_that_was_closed_by_another_worker_records_nothing(
    warehouse: WarehouseServer, sessions: Sessions
) -> None:
    experiment = _experiment(["p"])
    warehouse.create("participants", {"id": "TEXT", "revenue": "INTEGER"}, [("p", 1)])
    run = open_run(experiment, Job.DWH_PULL)
    close_run(run)

    with pytest.raises(RunLost):
        pull_outcomes(run, sessions=sessions)

    assert outcomes_of(experiment) == {"p": None}


@_one_engine
def test_outcomes_of_other_types_do_not_come_from_a_warehouse(warehouse: WarehouseServer, sessions: Sessions) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    with pytest.raises(InvalidInput, match="do not come from a warehouse"):
        pull_outcomes(open_run(experiment, Job.DWH_PULL), sessions=sessions)


class _Answering(Warehouse):
    """A warehouse whose answers about outcomes pass through ``change``."""

    def __init__(self, inner: Warehouse, change: Callable[[Rows], Rows]) -> None:
        self.dialect = inner.dialect
        self._inner = inner
        self._change = change

    def fetch(self, sql: str, parameter: str | None = None) -> Rows:
        rows = self._inner.fetch(sql, parameter)
        return rows if parameter is None else self._change(rows)

    def relations(self) -> tuple[Relation, ...]:
        return self._inner.relations()

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return self._inner.columns(relation)

    def cancel(self) -> None:
        self._inner.cancel()

    def close(self) -> None:
        self._inner.close()
