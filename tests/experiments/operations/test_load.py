"""Loading assignments from CSV: what is right is stored whole, what is wrong is told by its line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from experiments.errors import Conflict, InvalidInput
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Experiment
from experiments.operations.assign import assign_participant
from experiments.operations.load import BadFile, LoadReport, load_assignments
from tests.support.experiments import make_experiment

pytestmark = pytest.mark.django_db


def _experiment(**fields: Any) -> Experiment:
    usual = {"state": ExperimentState.ASSIGNED, "arms": [{"name": "control"}, {"name": "größer"}]}
    return make_experiment(ExperimentType.FREQ_PREASSIGNED, **{**usual, **fields})


def _load(experiment: Experiment, text: str | bytes) -> LoadReport:
    return load_assignments(experiment.id, io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def _stored(experiment: Experiment) -> dict[str, int]:
    rows = ArmAssignment.objects.filter(experiment=experiment)
    return dict(rows.values_list("participant_id", "arm__position"))


def test_arms_are_named_by_name_id_or_position() -> None:
    experiment = _experiment()
    arm = Arm.objects.get(experiment=experiment, position=2)
    report = _load(experiment, f"participant_id,arm\na,control\nb,größer\nc,1\nd,{arm.id}\n")
    assert report == LoadReport(loaded=4, already_there=0)
    assert _stored(experiment) == {"a": 1, "b": 2, "c": 1, "d": 2}


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfparticipant_id,arm\r\na,1\r\nb,2\r\n",
        b"participant_id,arm\ra,1\rb,2",
        b'"arm","participant_id"\n"1","a"\n"2","b"',
        b"participant_id,arm\n\na,1\n\nb,2\n\n",
    ],
)
def test_marks_line_ends_quotes_and_order_are_as_they_may_be(text: bytes) -> None:
    experiment = _experiment()
    _load(experiment, text)
    assert _stored(experiment) == {"a": 1, "b": 2}


def test_odd_but_possible_ids_arrive_as_they_are() -> None:
    odd = [" 42", "042", "a\\b", "\\N", "a\tb", "a\nb", 'quo"te', "a,b", "é", "\u00a0", "\u202e", "x" * 255]
    experiment = _experiment()
    lines = [f'"{id.replace(chr(34), chr(34) * 2)}",1' for id in odd]
    _load(experiment, "participant_id,arm\n" + "\n".join(lines))
    assert set(_stored(experiment)) == set(odd)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("a,1\na,1\n", ["line 3: participant 'a' is on line 2 already"]),
        ("a,1\nb,3\nc,Control\n", ["line 3: there is no arm '3'", "line 4: there is no arm 'Control'"]),
        ("a,1\n,1\n", ["line 3: participant_id must have 1 to 255 characters"]),
        (f"{'x' * 256},1\n", ["line 2: participant_id must have 1 to 255 characters"]),
        ("a\0b,1\n", ["line 2: participant_id must not contain NUL"]),
        ("a\n", ["line 2: has 1 values, the header has 2"]),
        ("a,1,\n", ["line 2: has 3 values, the header has 2"]),
        ('a,1\n"b,1\nc,1\n', ["line 4: cannot be read as CSV"]),
        ('a,1\n"b"x,1\nc,1\n', ["line 3: cannot be read as CSV"]),
        ("é,1\n".encode("latin-1"), ["line 2: participant_id is not UTF-8"]),
        (f"{'x' * 200_000},1\n", ["cannot be read as CSV: a line is longer than"]),
    ],
)
def test_wrong_lines_are_told_by_number_and_nothing_is_loaded(lines: str | bytes, told: list[str]) -> None:
    experiment = _experiment()
    text = lines if isinstance(lines, bytes) else lines.encode()
    with pytest.raises(BadFile) as refusal:
        _load(experiment, b"participant_id,arm\n" + text)
    assert refusal.value.total == len(told)
    for line in told:
        assert line in str(refusal.value)
    assert _stored(experiment) == {}


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("participant,arm", "the column participant_id is missing; 'participant' is no column known here"),
        ("participant_id", "the column arm is missing"),
        ("participant_id;arm", "the column participant_id is missing; the column arm is missing"),
        ("participant_id,arm,arm", "the column arm is there twice"),
        ("", "the column participant_id is missing"),
    ],
)
def test_a_wrong_header_is_told(header: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        _load(_experiment(), f"{header}\na,1\n" if header else "")
    assert told in str(refusal.value)


def test_a_file_without_assignments_is_refused() -> None:
    with pytest.raises(InvalidInput, match="only a header"):
        _load(_experiment(), "participant_id,arm\n")


def test_a_thousand_wrong_lines_are_counted_and_the_first_twenty_told() -> None:
    lines = "".join(f"p{number},9\n" for number in range(1000))
    with pytest.raises(BadFile) as refusal:
        _load(_experiment(), f"participant_id,arm\n{lines}")
    assert refusal.value.total == 1000
    assert [line.number for line in refusal.value.lines] == list(range(2, 22))
    assert str(refusal.value).endswith("… and 980 more")


def test_clusters_are_needed_where_the_experiment_is_clustered() -> None:
    clustered, plain = _experiment(clustered=True), _experiment()
    _load(clustered, "cluster_id,participant_id,arm\nc,a,1\nc,b,2\n")
    assert set(ArmAssignment.objects.filter(experiment=clustered).values_list("cluster_id", flat=True)) == {"c"}
    with pytest.raises(InvalidInput, match="the column cluster_id is missing"):
        _load(clustered, "participant_id,arm\nx,1\n")
    with pytest.raises(BadFile, match="line 2: cluster_id must have"):
        _load(clustered, "participant_id,arm,cluster_id\nx,1,\n")
    with pytest.raises(BadFile, match="line 3: the experiment is not clustered"):
        _load(plain, "participant_id,arm,cluster_id\nx,1,\ny,1,c\n")


def test_a_text_that_names_two_arms_is_refused() -> None:
    experiment = _experiment(arms=[{"name": "2"}, {"name": "b"}])
    with pytest.raises(BadFile, match="line 2: arm '2' is the name of one arm and the position of another"):
        _load(experiment, "participant_id,arm\nx,2\n")


def test_loading_again_changes_nothing_and_loading_otherwise_is_refused() -> None:
    experiment = _experiment()
    _load(experiment, "participant_id,arm\na,1\nb,2\n")
    assert _load(experiment, "participant_id,arm\na,1\nb,2\nc,1\n") == LoadReport(loaded=1, already_there=2)
    with pytest.raises(BadFile, match="line 3: participant 'b' is assigned already, to another arm"):
        _load(experiment, "participant_id,arm\nd,1\nb,1\n")
    assert _stored(experiment) == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("experiment_type", "state", "taken"),
    [
        (ExperimentType.FREQ_PREASSIGNED, ExperimentState.COMMITTED, False),
        (ExperimentType.FREQ_PREASSIGNED, ExperimentState.ABANDONED, False),
        (ExperimentType.FREQ_ONLINE, ExperimentState.ASSIGNED, True),
        (ExperimentType.FREQ_ONLINE, ExperimentState.COMMITTED, True),
    ],
)
def test_participants_of_a_preassigned_experiment_are_fixed_by_its_commit(
    experiment_type: ExperimentType, state: ExperimentState, taken: bool
) -> None:
    experiment = make_experiment(experiment_type, state=state)
    if taken:
        assert _load(experiment, "participant_id,arm\na,1\n").loaded == 1
    else:
        with pytest.raises(Conflict, match="fixed by now"):
            _load(experiment, "participant_id,arm\na,1\n")


def test_loaded_participants_keep_their_arm_when_they_come() -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    _load(experiment, "participant_id,arm\na,2\n")
    assert assign_participant(experiment.id, "a").arm_position == 2


def test_the_command_loads_a_file_and_tells_how_many(tmp_path: Path) -> None:
    experiment = _experiment()
    file, told = tmp_path / "a.csv", io.StringIO()
    file.write_text("participant_id,arm\na,1\nb,2\n")
    call_command("load_assignments", str(file), experiment=experiment.id, stdout=told)
    assert told.getvalue() == "2 assignments loaded, 0 were there before\n"


def test_the_command_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = _experiment()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"participant_id,arm\na,1\n")))
    call_command("load_assignments", "-", experiment=experiment.id, stdout=io.StringIO())
    assert _stored(experiment) == {"a": 1}


@pytest.mark.parametrize(
    ("file", "experiment", "told"), [("none.csv", None, "cannot be read"), ("a.csv", "exp_none", "no experiment")]
)
def test_the_command_says_what_is_in_the_way(file: str, experiment: str | None, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("participant_id,arm\na,1\n")
    with pytest.raises(CommandError, match=told):
        call_command("load_assignments", str(tmp_path / file), experiment=experiment or _experiment().id)
