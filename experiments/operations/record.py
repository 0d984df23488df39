"""Recording outcomes of draws, one or many at once, and with them the posteriors of their arms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db import transaction

from experiments import events
from experiments.errors import Conflict, InvalidInput, NotFound
from experiments.kinds import ExperimentState, RewardType
from experiments.models import Experiment
from experiments.operations import draw_rows
from experiments.operations.draw_rows import ArmRow, DrawRow
from experiments.operations.posteriors import Model, columns_of, model_of, posteriors_of
from taskqueue.telemetry import emit

INVALID, CONFLICT = "invalid", "conflict"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """``code`` is ``invalid`` (the value cannot be an outcome) or ``conflict`` (another outcome is stored)."""

    participant_id: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RecordReport:
    """``already_had`` had the same outcome before (or any, when draws are failed because their time is up).

    ``unknown`` have no draw in this experiment. Nothing of what is refused or unknown was stored; the rest was.
    """

    applied: int
    already_had: int
    unknown: tuple[str, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """``replayed``: it was recorded before, and nothing changed."""

    participant_id: str
    replayed: bool


def record_outcome(experiment_id: str, participant_id: str, outcome: object, *, autofailed: bool = False) -> Recorded:
    """Record one outcome, once: the same again is a replay.

    Raises ``NotFound`` without such a draw, ``InvalidInput`` for a value that cannot be an outcome, and ``Conflict``
    when another outcome is stored, or the experiment is not committed.
    """
    report = record_outcomes(experiment_id, {participant_id: outcome}, autofailed=autofailed)
    if report.unknown:
        raise NotFound(f"there is no draw of {participant_id!r} in {experiment_id}", field="participant_id")
    for refused in report.refused:
        error = InvalidInput if refused.code == INVALID else Conflict
        raise error(f"{participant_id!r} in {experiment_id}: {refused.reason}", field="outcome")
    return Recorded(participant_id=participant_id, replayed=report.already_had == 1)


def record_outcomes(experiment_id: str, outcomes: Mapping[str, object], *, autofailed: bool = False) -> RecordReport:
    """Record many outcomes in one transaction, in statements of sets. Posteriors are exact, whatever else goes on.

    ``outcomes`` are numbers (or booleans, which count 0 and 1) by participant. Each that is wrong is refused on its
    own, the others are recorded. With ``autofailed`` the draws' time is up: one that has an outcome keeps it.

    Raises ``NotFound`` without such an experiment, ``Conflict`` unless it is committed, ``InvalidInput`` when it is no
    bandit or its posteriors leave the range of double precision.
    """
    with transaction.atomic():
        experiment = Experiment.objects.filter(pk=experiment_id).first()
        if experiment is None:
            raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment_id")
        model = model_of(experiment)
        if experiment.state != ExperimentState.COMMITTED:
            raise Conflict(f"{experiment_id} is {experiment.state}, not committed: it takes no outcomes", field="state")
        values, refused = _judged(model, outcomes)
        found = _locked(model, list(values))
        refused += [each for row in found.draws for each in _conflicts(row, values[row.participant_id], autofailed)]
        new = {row.participant_id: values[row.participant_id] for row in found.draws if row.outcome is None}
        if new:
            _apply(model, found, new, autofailed=autofailed)
        known = {row.participant_id for row in found.draws}
        conflicts = sum(each.code == CONFLICT for each in refused)
        report = RecordReport(
            applied=len(new),
            already_had=len(known) - len(new) - conflicts,
            unknown=tuple(participant for participant in values if participant not in known),
            refused=tuple(refused),
        )
        transaction.on_commit(lambda: _tell(experiment_id, report, autofailed=autofailed))
        return report


@dataclass(frozen=True, kw_only=True)
class _Found:
    arms: Sequence[ArmRow]
    draws: Sequence[DrawRow]


def _judged(model: Model, outcomes: Mapping[str, object]) -> tuple[dict[str, float], list[Refused]]:
    values: dict[str, float] = {}
    refused = []
    for participant_id, outcome in outcomes.items():
        value = _number(outcome)
        if value is None:
            reason = f"an outcome must be a finite number, not {_shown(outcome)}"
        elif model.reward_type is RewardType.BINARY and value not in (0.0, 1.0):
            reason = f"the reward is binary: an outcome must be 0 or 1, not {_shown(outcome)}"
        else:
            values[participant_id] = value
            continue
        refused.append(Refused(participant_id=participant_id, code=INVALID, reason=reason))
    return values, refused


def _locked(model: Model, participants: Sequence[str]) -> _Found:
    """The draws that exist and the arms whose posteriors may change, all held until the transaction ends."""
    # What PostgreSQL cannot store is nobody's id.
    storable = [participant for participant in participants if _is_storable(participant)]
    draws = draw_rows.find_draws(model.experiment_id, storable)
    pending = {row.arm_id for row in draws if row.outcome is None}
    if not pending:
        return _Found(arms=(), draws=draws)
    arms = draw_rows.lock_arms(model.experiment_id, None if model.shares_noise else sorted(pending))
    # Read again: some may have received their outcome while we waited. A draw's arm never changes.
    return _Found(arms=arms, draws=draw_rows.lock_draws(model.experiment_id, [row.participant_id for row in draws]))


def _conflicts(row: DrawRow, value: float, autofailed: bool) -> list[Refused]:
    if row.outcome is None or row.outcome == value or autofailed:
        return []
    how = "filled in because its time was up" if row.autofailed else "recorded before"
    reason = f"the outcome {row.outcome:g} was {how} and stays; {value:g} is another"
    return [Refused(participant_id=row.participant_id, code=CONFLICT, reason=reason)]


def _apply(model: Model, found: _Found, new: Mapping[str, float], *, autofailed: bool) -> None:
    sums = draw_rows.sums_with(found.arms, model.experiment_id, new)
    counts = draw_rows.counts_of_draws(found.arms, model.experiment_id, new) if model.counts_by_context else []
    posteriors = posteriors_of(model, found.arms, sums, counts)
    by_arm: dict[str, dict[str, float]] = {}
    for row in found.draws:
        if row.participant_id in new:
            by_arm.setdefault(row.arm_id, {})[row.participant_id] = new[row.participant_id]
    for arm in found.arms:
        columns = columns_of(posteriors[arm.id])
        if arm.id in by_arm:
            draw_rows.write_outcomes(model.experiment_id, by_arm[arm.id], autofailed=autofailed, columns=columns)
        draw_rows.write_arm(arm.id, columns)


def _number(outcome: object) -> float | None:
    """None for what is no finite number: text, None, NaN, infinity."""
    if not isinstance(outcome, int | float | Decimal):
        return None
    try:
        value = float(outcome)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _shown(outcome: object) -> str:
    text = repr(outcome)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _is_storable(participant: object) -> bool:
    if not isinstance(participant, str) or "\0" in participant:
        return False
    try:
        participant.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tell(experiment_id: str, report: RecordReport, *, autofailed: bool) -> None:
    if report.applied or report.already_had:
        emit(
            events.OUTCOMES_RECORDED,
            experiment_id=experiment_id,
            applied=report.applied,
            already_had=report.already_had,
            autofailed=autofailed,
        )
    if report.unknown or report.refused:
        conflicts = sum(each.code == CONFLICT for each in report.refused)
        emit(
            events.OUTCOMES_REFUSED,
            experiment_id=experiment_id,
            conflicts=conflicts,
            unknown=len(report.unknown),
            invalid=len(report.refused) - conflicts,
        )
