"""Loading assignments from a CSV file: streamed by COPY, all or nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any, BinaryIO

from django.db import IntegrityError, connections, router, transaction

from experiments import events
from experiments.errors import Conflict, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Arm, ArmAssignment, Experiment
from experiments.operations.assignment_file import LINES_TOLD, BadLine, BadLines, Row, names_of, rows_of
from taskqueue.telemetry import emit

_BATCH = 5_000
_STAGE = """
    CREATE TEMPORARY TABLE staged_assignments (
        number bigint NOT NULL, participant_id text COLLATE "C" NOT NULL, arm integer NOT NULL, cluster_id text
    ) ON COMMIT DROP
"""
_COPY = "COPY staged_assignments (number, participant_id, arm, cluster_id) FROM STDIN"
_REPEATED = """
    SELECT count(*) OVER (), participant_id, min(number) AS first_number, max(number)
    FROM staged_assignments GROUP BY participant_id HAVING count(*) > 1
    ORDER BY first_number LIMIT %(limit)s
"""
_STORED = """
    FROM staged_assignments AS staged
    JOIN arms ON arms.experiment_id = %(experiment)s AND arms.position = staged.arm
    JOIN arm_assignments AS stored
        ON stored.experiment_id = %(experiment)s AND stored.participant_id = staged.participant_id
"""
_DIFFERENT = "(stored.arm_id, stored.cluster_id) IS DISTINCT FROM (arms.id, staged.cluster_id)"
_COUNT_STORED = f"SELECT count(*), count(*) FILTER (WHERE {_DIFFERENT}) {_STORED}"
_CONTRADICTED = f"""
    SELECT staged.participant_id, staged.number {_STORED} WHERE {_DIFFERENT} ORDER BY staged.number LIMIT %(limit)s
"""
# In the order of the key, so that its index grows at one end.
_INSERT = """
    INSERT INTO arm_assignments (experiment_id, participant_id, arm_id, cluster_id)
    SELECT arms.experiment_id, staged.participant_id, arms.id, staged.cluster_id
    FROM staged_assignments AS staged
    JOIN arms ON arms.experiment_id = %(experiment)s AND arms.position = staged.arm
    WHERE NOT %(some_stored)s OR NOT EXISTS (
        SELECT FROM arm_assignments AS stored
        WHERE stored.experiment_id = %(experiment)s AND stored.participant_id = staged.participant_id
    )
    ORDER BY staged.participant_id
"""


class BadFile(InvalidInput):
    """Lines of the file are wrong, so nothing was loaded. ``lines`` are the first of ``total``."""

    def __init__(self, lines: Sequence[BadLine], total: int) -> None:
        self.lines = tuple(lines)
        self.total = total
        told = "\n".join(f"line {line.number}: {line.problem}" for line in lines)
        more = f"\n… and {total - len(lines)} more" if total > len(lines) else ""
        super().__init__(f"nothing was loaded, {total} lines are wrong:\n{told}{more}", field="file", code="bad_lines")


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """``already_there`` were in the table before, in the same arm and cluster."""

    loaded: int
    already_there: int


def load_assignments(experiment_id: str, file: BinaryIO) -> LoadReport:
    """Load ``participant_id,arm,cluster_id`` (the last where the experiment is clustered) from UTF-8 text.

    ``arm`` is an arm's name, id or position. A participant may be in the file once; one who is in the table already
    must be there with the same arm and cluster. The transaction holds the experiment's state meanwhile.

    Raises ``NotFound``; ``BadFile`` for wrong lines; ``InvalidInput`` for a wrong header, an empty file or a bandit;
    ``Conflict`` for an abandoned experiment, a preassigned one that is committed, or when somebody assigned the same
    participants meanwhile.
    """
    try:
        with transaction.atomic():
            report = _load(experiment_id, file)
            told = {"experiment_id": experiment_id, "loaded": report.loaded, "already_there": report.already_there}
            transaction.on_commit(lambda: emit(events.ASSIGNMENTS_LOADED, **told))
            return report
    except IntegrityError as error:
        raise Conflict(
            f"participants of {experiment_id} were assigned while they were loaded; load the file again",
            field="participant_id",
        ) from error


def _load(experiment_id: str, file: BinaryIO) -> LoadReport:
    experiment = _open_experiment(experiment_id)
    arms = Arm.objects.filter(experiment=experiment).values_list("id", "position", "name")
    by_name, ambiguous = names_of(list(arms))
    bad = BadLines()
    rows = rows_of(file, arms=by_name, ambiguous=ambiguous, clustered=experiment.clustered, bad=bad)
    with connections[router.db_for_write(ArmAssignment)].cursor() as cursor:
        cursor.execute(_STAGE)
        staged = _copy(cursor, rows)
        cursor.execute("ANALYZE staged_assignments")
        if staged == 0 and bad.total == 0:
            raise InvalidInput("the file has no assignments, only a header", field="file")
        parameters: dict[str, Any] = {"experiment": experiment_id, "limit": LINES_TOLD}
        _find_repeated(cursor, parameters, bad)
        already_there = _find_stored(cursor, parameters, bad)
        if bad.total:
            raise BadFile(sorted(bad.first, key=lambda line: line.number)[:LINES_TOLD], bad.total)
        if already_there < staged:
            cursor.execute(_INSERT, {**parameters, "some_stored": already_there > 0})
        # Dropped here rather than with the commit, which may be far away: the caller's transaction goes on.
        cursor.execute("DROP TABLE staged_assignments")
        return LoadReport(loaded=staged - already_there, already_there=already_there)


def _open_experiment(experiment_id: str) -> Experiment:
    """The experiment, whose state stays until the end of the transaction."""
    experiment = Experiment.objects.select_for_update(no_key=True).filter(pk=experiment_id).first()
    if experiment is None:
        raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment_id")
    kind = ExperimentType(experiment.experiment_type)
    if kind.is_bandit:
        raise InvalidInput(f"{experiment_id} is a bandit: its participants are drawn", field="experiment_id")
    fixed = kind is ExperimentType.FREQ_PREASSIGNED and experiment.state == ExperimentState.COMMITTED
    if fixed or experiment.state == ExperimentState.ABANDONED:
        raise Conflict(
            f"{experiment_id} is {kind} and {experiment.state}: its participants are fixed by now", field="state"
        )
    return experiment


def _copy(cursor: Any, rows: Iterator[Row]) -> int:
    staged = 0
    with cursor.copy(_COPY) as copy:
        for batch in batched(rows, _BATCH):
            copy.write("".join(map(_line, batch)))
            staged += len(batch)
    return staged


def _line(row: Row) -> str:
    cluster = r"\N" if row.cluster_id is None else _escaped(row.cluster_id)
    return f"{row.number}\t{_escaped(row.participant_id)}\t{row.arm}\t{cluster}\n"


def _escaped(text: str) -> str:
    if text.isprintable() and "\\" not in text:
        return text
    for character, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escape)
    return text


def _find_repeated(cursor: Any, parameters: dict[str, Any], bad: BadLines) -> None:
    cursor.execute(_REPEATED, parameters)
    found = cursor.fetchall()
    for _, participant, first, last in found:
        bad.first.append(BadLine(number=last, problem=f"participant {participant!a} is on line {first} already"))
    bad.total += int(found[0][0]) if found else 0


def _find_stored(cursor: Any, parameters: dict[str, Any], bad: BadLines) -> int:
    """How many are in the table already; those that are there otherwise are bad lines."""
    cursor.execute(_COUNT_STORED, parameters)
    already_there, contradicted = cursor.fetchone()
    if contradicted:
        cursor.execute(_CONTRADICTED, parameters)
        for participant, number in cursor.fetchall():
            problem = f"participant {participant!a} is assigned already, to another arm or cluster"
            bad.first.append(BadLine(number=number, problem=problem))
        bad.total += int(contradicted)
    return int(already_there)
