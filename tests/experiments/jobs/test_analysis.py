"""A/B experiments analysed on real engines: ids of every type, rows that disagree, columns that are gone or break."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from django.db import connection

from experiments.errors import DatasourceError
from experiments.jobs import metric_sums
from experiments.jobs.analysis import analyze
from experiments.jobs.definition import read_definition
from experiments.kinds import ExperimentType
from experiments.models import ArmAssignment, Experiment
from experiments.warehouse.pairs import PairLimits
from tests.support.experiments import arms_of, make_experiment
from tests.support.warehouses import Rows, WarehouseServer

pytestmark = pytest.mark.django_db

# Participant, position of the arm from 0, and a cluster where there are any.
type Assigned = Iterable[tuple[Any, ...]]

_UUID = "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"
_FLAT = (
    "estimate",
    "p_value",
    "t_stat",
    "std_error",
    "ci_lower",
    "ci_upper",
    "mean_ci_lower",
    "mean_ci_upper",
    "num_missing_values",
    "is_baseline",
)
_IDS = ["42", "042", " 42", "42 ", "4.2e1", "42.0", "+42", "abc", _UUID, str(2**63), "-0", "٤٢", "NULL", "{}", " "]


def _experiment(assigned: Assigned, *, arms: int = 2, metrics: Sequence[str] = ("y",), **fields: Any) -> Experiment:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE, arms=arms, metrics=metrics, **fields)
    its_arms = arms_of(experiment)
    ArmAssignment.objects.bulk_create(
        ArmAssignment(
            experiment=experiment, participant_id=id, arm=its_arms[arm], cluster_id=cluster[0] if cluster else None
        )
        for id, arm, *cluster in assigned
    )
    return experiment


def _table(server: WarehouseServer, rows: Rows, *, id: str = "TEXT", **metrics: str) -> None:
    server.create("participants", {"id": id, **(metrics or {"y": "DOUBLE PRECISION"})}, rows)


def _analyze(server: WarehouseServer, experiment: Experiment) -> dict[str, Any]:
    """What the snapshot would hold, after a round through JSON."""
    data = analyze(read_definition(experiment.id), lambda _: server.open())
    read: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    return read


def _arms(data: Mapping[str, Any], metric: int = 0) -> list[dict[str, Any]]:
    arms: list[dict[str, Any]] = data["metric_analyses"][metric]["arm_analyses"]
    return arms


def _each(data: Mapping[str, Any], *names: str, metric: int = 0) -> list[tuple[Any, ...]]:
    """These values of each arm."""
    return [tuple(arm[name] for name in names) for arm in _arms(data, metric)]


def _assert_same(data: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Whatever was computed of the metrics, but for the rounding of sums."""
    ours, theirs = _flattened(data["metric_analyses"]), _flattened(expected["metric_analyses"])
    assert ours.keys() == theirs.keys()
    floats = {path for path, value in theirs.items() if isinstance(value, float)}
    assert {path: ours[path] for path in floats} == pytest.approx({path: theirs[path] for path in floats}, rel=1e-9)
    assert {path: ours[path] for path in ours.keys() - floats} == {p: theirs[p] for p in theirs.keys() - floats}


def _flattened(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for name, each in value.items() for k, v in _flattened(each, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {k: v for place, each in enumerate(value) for k, v in _flattened(each, f"{path}.{place}").items()}
    return {path: value}


@pytest.mark.parametrize(
    ("kind", "stored", "found"),
    [
        ("BIGINT", [42, 2**63 - 1], {"42"}),
        ("TEXT", ["42", "abc", _UUID.lower(), ""], {"42", "abc"}),
        ("UUID", [_UUID.lower()], {_UUID}),
        ("NUMERIC(20, 0)", [42, 2**63], {"42", str(2**63)}),
        # The shortest text of the double 2^63 ends in 6000.
        ("DOUBLE PRECISION", [42.0, 2.0**63], {"42"}),
    ],
)
def test_ids_match_as_the_column_writes_them_and_others_are_not_in_the_warehouse(
    warehouse: WarehouseServer, kind: str, stored: list[Any], found: set[str]
) -> None:
    _table(warehouse, [(id, 1.0) for id in [*stored, None]], id=kind)
    # Each in an arm of its own, so that it is seen which one was found.
    data = _analyze(warehouse, _experiment([(id, arm) for arm, id in enumerate(_IDS)], arms=len(_IDS)))
    used = {_IDS[place] for place, (n_used,) in enumerate(_each(data, "n_used")) if n_used}
    assert used == found
    assert data["counts"]["n_assigned"] == len(_IDS)
    assert data["counts"]["n_not_in_warehouse"] == len(_IDS) - len(found)
    assert _each(data, "n_used", "n_not_in_warehouse") == [(1, 0) if id in found else (0, 1) for id in _IDS]


def test_one_uuid_assigned_twice_in_other_capitals_is_counted_as_a_duplicate_and_used_for_nobody(
    warehouse: WarehouseServer,
) -> None:
    other = "00000000-0000-0000-0000-00000000000a"
    _table(warehouse, [(_UUID, 5.0), (other, 1.0)], id="UUID")
    data = _analyze(warehouse, _experiment([(_UUID, 0), (_UUID.lower(), 1), (other.upper(), 1)]))
    assert _each(data, "n_assigned", "n_used", "n_duplicate", "n_not_in_warehouse") == [(1, 0, 1, 0), (2, 1, 1, 0)]
    assert data["counts"]["n_ambiguous"] == 2


def test_rows_that_agree_count_once_and_others_as_duplicates_metric_by_metric(warehouse: WarehouseServer) -> None:
    nan = math.nan
    rows: list[tuple[str | None, float | None, int | None]] = [
        ("a", 1.5, 1), ("a", 1.5, 1), ("a", 1.5, 1),
        ("b", 2.5, 2), ("b", 2.5, 3),
        ("c", None, 4), ("c", None, 4),
        ("d", None, 5), ("d", 1.0, 5),
        ("e", nan, 6), ("e", math.inf, 6),
        ("f", nan, 7), ("f", 1.0, None),
        (None, 9.0, 9), (None, 9.0, 9),
    ]  # fmt: skip
    _table(warehouse, rows, y="DOUBLE PRECISION", n="INTEGER")
    data = _analyze(warehouse, _experiment([(id, 0) for id in "abcdef"] + [("gone", 1)], metrics=("y", "n")))
    counts = ("n_used", "n_null", "n_non_finite", "n_duplicate", "n_not_in_warehouse", "mean")
    assert _each(data, *counts, metric=0) == [(2, 1, 1, 2, 0, 2.0), (0, 0, 0, 0, 1, None)]
    assert _each(data, *counts, metric=1) == [(4, 0, 0, 2, 0, 4.0), (0, 0, 0, 0, 1, None)]
    assert [arm["num_missing_values"] for arm in _arms(data, 0)] == [4, 1]


def test_arms_that_tell_too_little_have_a_status_and_null(warehouse: WarehouseServer) -> None:
    people = [*_five("b", 0), ("one", 1), *_five("c", 2), *_five("m", 4), ("away", 5)]
    values = {"one": 3.0} | {f"c{n}": 7.0 for n in range(5)} | {f"b{n}": float(n) for n in range(5)}
    _table(warehouse, [(id, values.get(id)) for id, _ in people if id != "away"])
    data = _analyze(warehouse, _experiment(people, arms=6))
    assert _each(data, "status", "n_used", "estimate") == [
        ("baseline", 5, 2.0),
        ("error_not_estimable", 1, 1.0),
        ("ok", 5, 5.0),
        ("no_data", 0, None),
        ("no_data", 0, None),
        ("no_data", 0, None),
    ]
    for arm in _arms(data):
        # The keys of the older format are there, and null is never a number in disguise.
        assert set(_FLAT) <= set(arm)
        if arm["status"] not in ("ok", "baseline"):
            assert {arm[name] for name in ("p_value", "t_stat", "std_error", "ci_lower", "ci_upper")} == {None}
            assert arm["reason"]
    assert [arm["num_missing_values"] for arm in _arms(data)] == [0, 0, 0, 0, 5, 1]


def test_constant_outcomes_are_zero_variance(warehouse: WarehouseServer) -> None:
    people = [*_five("b", 0), *_five("c", 1)]
    _table(warehouse, [(id, 7 + arm) for id, arm in people], y="INTEGER")
    data = _analyze(warehouse, _experiment(people))
    assert _each(data, "status", "estimate", "p_value")[1] == ("zero_variance", 1.0, None)


def test_one_cluster_an_arm_is_not_estimable(warehouse: WarehouseServer) -> None:
    people = [(id, arm, f"c{arm}") for id, arm in [*_five("b", 0), *_five("c", 1)]]
    _table(warehouse, [(id, float(place)) for place, (id, *_) in enumerate(people)])
    data = _analyze(warehouse, _experiment(people, clustered=True))
    assert _each(data, "status", "estimate", "p_value", "n_clusters")[1] == ("error_not_estimable", 5.0, None, 1)


def test_without_any_assignment_there_is_no_data(warehouse: WarehouseServer) -> None:
    _table(warehouse, [("stranger", 1.0)])
    data = _analyze(warehouse, _experiment([]))
    assert _each(data, "status", "n_assigned", "estimate") == [("no_data", 0, None)] * 2
    assert data["sample_ratio"]["p_value"] is None


def _five(prefix: str, arm: int) -> list[tuple[str, int]]:
    return [(f"{prefix}{n}", arm) for n in range(5)]


def test_a_lost_column_spoils_its_metric_only_and_says_what_exists(warehouse: WarehouseServer) -> None:
    _table(warehouse, [("a", 1, 2), ("b", 3, 4)], y="INTEGER", z="INTEGER")
    experiment = _experiment([("a", 0), ("b", 1)], metrics=("y", "z"))
    assert [metric["status"] for metric in _analyze(warehouse, experiment)["metric_analyses"]] == ["analyzed"] * 2

    warehouse.execute("ALTER TABLE participants RENAME COLUMN y TO yield")
    lost, kept = _analyze(warehouse, experiment)["metric_analyses"]
    assert (lost["status"], lost["error_code"]) == ("failed", "column_missing")
    assert "there is no column 'y' in 'participants'" in lost["reason"]
    assert "'yield'" in lost["reason"]
    for arm in lost["arm_analyses"]:
        assert {arm[name] for name in _FLAT if name != "is_baseline"} == {None}
    assert [arm["mean"] for arm in kept["arm_analyses"]] == [2, 4]

    warehouse.execute("ALTER TABLE participants RENAME COLUMN id TO person")
    with pytest.raises(DatasourceError, match=r"no column 'id' in 'participants'.*'person'") as fault:
        _analyze(warehouse, experiment)
    assert fault.value.code == "column_missing"

    warehouse.execute("ALTER TABLE participants RENAME TO people")
    with pytest.raises(DatasourceError, match=r"no table 'participants'.*'people'") as fault:
        _analyze(warehouse, experiment)
    assert fault.value.code == "table_missing"


def test_a_metric_whose_query_fails_is_tried_alone_and_spoils_no_other(warehouse: WarehouseServer) -> None:
    warehouse.create("stored", {"id": "TEXT", "y": "INTEGER", "word": "TEXT"}, [("a", 1, "x"), ("b", 3, "x")])
    warehouse.execute("CREATE VIEW participants AS SELECT id, y, CAST(word AS INTEGER) AS broken FROM stored")
    data = _analyze(warehouse, _experiment([("a", 0), ("b", 1), ("c", 1)], metrics=("broken", "y")))
    broken, kept = data["metric_analyses"]
    assert (broken["status"], broken["error_code"]) == ("failed", "query_failed")
    assert [arm["mean"] for arm in kept["arm_analyses"]] == [1, 3]
    assert data["counts"]["n_not_in_warehouse"] == 1


def test_metrics_that_are_no_numbers_are_refused_one_by_one(warehouse: WarehouseServer) -> None:
    _table(warehouse, [("a", "1", 1), ("b", "2", 2)], y="TEXT", z="INTEGER")
    refused, kept = _analyze(warehouse, _experiment([("a", 0), ("b", 1)], metrics=("y", "z")))["metric_analyses"]
    assert refused["error_code"] == "metric_type_unsupported"
    assert kept["status"] == "analyzed"


_HOSTILE = [
    'x"; DROP TABLE participants; --',
    "x'); DELETE FROM participants; --",
    "y) FROM participants; DROP TABLE participants; --",
    "$1",
    "?",
    "%s %(a)s {y} :pairs @pairs",
    "select",
    "a\nb\\`",
    "größe 😀",
]


def test_names_are_data_whatever_they_contain(warehouse: WarehouseServer) -> None:
    names = [*_HOSTILE, 'absent"; DROP TABLE participants; --']
    rows = [("a", *[1] * len(_HOSTILE)), ("b", *[3] * len(_HOSTILE))]
    warehouse.create('participants"; --', {"id'\"": "TEXT", **dict.fromkeys(_HOSTILE, "INTEGER")}, rows)
    experiment = _experiment(
        [("a", 0), ("b", 1)], metrics=names, unique_id="id'\"", datasource_table='participants"; --'
    )
    data = _analyze(warehouse, experiment)
    assert [metric["metric_name"] for metric in data["metric_analyses"]] == names
    for position in range(len(_HOSTILE)):
        assert _each(data, "mean", metric=position) == [(1,), (3,)]
    assert data["metric_analyses"][-1]["error_code"] == "column_missing"
    with warehouse.open() as session:
        assert session.tables() == ('participants"; --',)


def test_values_beyond_computing_are_a_status_and_never_a_number(warehouse: WarehouseServer) -> None:
    inf, nan = math.inf, math.nan
    rows = [("a", inf, 1e308), ("b", -inf, -1e308), ("c", nan, 1e308), ("d", 1.0, 1.0), ("e", 2.0, 2.0)]
    rows += [("f", 3.0, 4.0), ("g", 4.0, 8.0)]
    _table(warehouse, rows, y="DOUBLE PRECISION", z="DOUBLE PRECISION")
    data = _analyze(warehouse, _experiment([(id, int(id > "e")) for id in "abcdefg"], metrics=("y", "z")))
    assert _each(data, "n_used", "n_non_finite", "mean") == [(2, 3, 1.5), (2, 0, 3.5)]
    assert _arms(data)[1]["estimate"] == 2.0
    assert [metric["status"] for metric in data["metric_analyses"]] == ["analyzed"] * 2
    assert _each(data, "status", "mean", "p_value", metric=1) == [
        ("error_not_estimable", None, None),
        ("error_not_estimable", 6.0, None),
    ]
    assert "too large" in _arms(data, 1)[0]["reason"]


def test_sums_of_many_chunks_are_those_of_one(warehouse: WarehouseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 60_000
    rows = [(f"p{i}", 1e9 + (i * 7919 % 1000) / 8, i % 3) for i in range(0, n, 20)]
    _table(warehouse, rows, y="DOUBLE PRECISION", z="INTEGER")
    experiment = _experiment([], metrics=("y", "z"))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO arm_assignments (experiment_id, participant_id, arm_id)"
            " SELECT %s, 'p' || n, (%s::text[])[1 + n / 20 %% 2] FROM generate_series(0, %s) AS n",
            [experiment.id, [arm.id for arm in arms_of(experiment)], n - 1],
        )
    many = _analyze(warehouse, experiment)
    assert many["counts"]["n_chunks"] == 3
    assert many["counts"]["n_not_in_warehouse"] == n - n // 20
    monkeypatch.setattr(metric_sums, "limits", lambda dialect: PairLimits(rows=n, bytes=80_000_000))
    one = _analyze(warehouse, experiment)
    assert one["counts"]["n_chunks"] == 1
    _assert_same(many, one)


@pytest.mark.parametrize("rows", [1, 7])
def test_clusters_are_whole_whatever_the_size_of_chunks(
    warehouse: WarehouseServer, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    people = [(f"p{n}", n % 8 % 2, f"c{n % 8}") for n in range(40)] + [(f"q{n}", 1, "large") for n in range(60)]
    _table(warehouse, [(id, float(place % 13)) for place, (id, _, _) in enumerate(people)])
    experiment = _experiment(people, clustered=True)
    whole = _analyze(warehouse, experiment)
    monkeypatch.setattr(metric_sums, "limits", lambda dialect: PairLimits(rows=rows, bytes=80_000_000))
    data = _analyze(warehouse, experiment)
    assert _arms(data)[1]["n_clusters"] == 5
    assert data["metric_analyses"][0]["n_clusters"] == 9
    assert data["sample_ratio"] == whole["sample_ratio"]
    _assert_same(data, whole)
