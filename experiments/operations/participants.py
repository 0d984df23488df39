"""Participants: what can be an id, and whether an experiment takes new ones now."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections, router

from experiments.errors import Conflict, InvalidInput, NotFound
from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Experiment

LONGEST_ID = 255


def problem_of_id(value: object) -> str | None:
    """What keeps ``value`` from being an id of a participant or a cluster; None when nothing does."""
    if not isinstance(value, str):
        return "must be a text"
    if not 1 <= len(value) <= LONGEST_ID:
        return f"must have 1 to {LONGEST_ID} characters"
    if "\0" in value:
        return "must not contain NUL"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "must not contain lone surrogates"
    return None


def judge_id(field: str, value: object) -> None:
    """Raises ``InvalidInput``."""
    problem = problem_of_id(value)
    if problem is not None:
        raise InvalidInput(f"{field} {problem}", field=field)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What decides about a new participant. ``now`` is the database's clock."""

    experiment_id: str
    experiment_type: ExperimentType
    state: ExperimentState
    start_date: datetime
    end_date: datetime
    clustered: bool
    now: datetime

    def judge(self) -> None:
        """Raises ``Conflict`` unless the experiment is committed and now is from its start to just before its end."""
        if self.state is not ExperimentState.COMMITTED:
            raise Conflict(f"{self.experiment_id} is {self.state}: it takes no participants", field="state")
        if self.now < self.start_date:
            raise Conflict(
                f"{self.experiment_id} takes participants from {self.start_date.isoformat()} on", field="start_date"
            )
        if self.now >= self.end_date:
            raise Conflict(f"{self.experiment_id} ended on {self.end_date.isoformat()}", field="end_date")


def admission_to(experiment_id: str) -> Admission:
    """Raises ``NotFound``."""
    row = one_row(
        """
        SELECT experiment_type, state, start_date, end_date, clustered, clock_timestamp()
        FROM experiments WHERE id = %(experiment)s
        """,
        {"experiment": experiment_id},
    )
    if row is None:
        raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment_id")
    kind, state, start_date, end_date, clustered, now = row
    return Admission(
        experiment_id=experiment_id,
        experiment_type=ExperimentType(kind),
        state=ExperimentState(state),
        start_date=start_date,
        end_date=end_date,
        clustered=clustered,
        now=now,
    )


def one_row(query: str, parameters: dict[str, Any]) -> tuple[Any, ...] | None:
    with connections[router.db_for_write(Experiment)].cursor() as cursor:
        cursor.execute(query, parameters)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row
