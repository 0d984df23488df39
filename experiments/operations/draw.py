"""Drawing a participant's arm from the posteriors of a bandit, once for all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.errors import InvalidInput
from experiments.kinds import RewardType
from experiments.models import Context, Experiment
from experiments.operations import draw_rows
from experiments.operations.participants import admission_to, judge_id, one_row
from experiments.operations.posteriors import current_posteriors, model_of
from experiments.stats.sampling import choose_arm

LARGEST_CONTEXT = 1e50
_STORED = """
    SELECT arms.id, arms.position, arms.name, draws.context_vals
    FROM draws JOIN arms ON arms.id = draws.arm_id
    WHERE draws.experiment_id = %(experiment)s AND participant_id = %(participant)s
"""
_INSERT = """
    INSERT INTO draws (experiment_id, participant_id, arm_id, context_vals)
    VALUES (%(experiment)s, %(participant)s, %(arm)s, %(context)s::float8[])
    ON CONFLICT (experiment_id, participant_id) DO NOTHING
    RETURNING arm_id
"""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """``replayed``: the participant had this arm before, drawn at these ``context_vals``."""

    experiment_id: str
    participant_id: str
    arm_id: str
    arm_position: int
    arm_name: str
    context_vals: tuple[float, ...] | None
    replayed: bool


def draw_participant(
    experiment_id: str,
    participant_id: str,
    *,
    context_vals: Sequence[float] | None = None,
    rng: np.random.Generator | None = None,
) -> Drawn:
    """The participant's arm: the stored one, else one chosen by Thompson sampling (top-two from five arms on).

    ``context_vals`` are the contexts' values in the order of their positions. Whoever was drawn keeps the arm, at
    whatever context they come again, also after the end.

    Raises ``NotFound``, ``InvalidInput`` for an experiment that assigns by weights, an id that cannot be, or contexts
    that do not fit, and ``Conflict`` when the experiment takes no participants now.
    """
    judge_id("participant_id", participant_id)
    admission = admission_to(experiment_id)
    if not admission.experiment_type.is_bandit:
        raise InvalidInput(f"{experiment_id} is no bandit: assign its participants", field="experiment_id")
    replayed = True
    stored = _stored(experiment_id, participant_id)
    while stored is None:
        admission.judge()
        context = _judged_context(experiment_id, context_vals)
        arm_id = _chosen_arm(experiment_id, context, rng or np.random.default_rng())
        parameters = {
            "experiment": experiment_id,
            "participant": participant_id,
            "arm": arm_id,
            "context": context or None,
        }
        replayed = one_row(_INSERT, parameters) is None
        # Of two callers at once one inserts; the other waited for that, and reads here what was inserted.
        stored = _stored(experiment_id, participant_id)
    arm_id, position, name, stored_context = stored
    return Drawn(
        experiment_id=experiment_id,
        participant_id=participant_id,
        arm_id=arm_id,
        arm_position=position,
        arm_name=name,
        context_vals=None if stored_context is None else tuple(stored_context),
        replayed=replayed,
    )


def _judged_context(experiment_id: str, values: Sequence[float] | None) -> list[float]:
    contexts = list(Context.objects.filter(experiment_id=experiment_id).order_by("position"))
    given = list(values or ())
    if len(given) != len(contexts):
        names = ", ".join(context.name for context in contexts)
        wanted = f"{len(contexts)} numbers ({names})" if contexts else "none"
        raise InvalidInput(f"context_vals: {experiment_id} takes {wanted}, got {len(given)}", field="context_vals")
    problems = [
        (f"context_vals[{number}]", problem)
        for number, (context, value) in enumerate(zip(contexts, given, strict=True))
        if (problem := _problem_of_value(context, value)) is not None
    ]
    if problems:
        raise InvalidInput.of(problems)
    return [float(value) for value in given]


def _problem_of_value(context: Context, value: object) -> str | None:
    if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > LARGEST_CONTEXT:
        return f"{context.name} must be a finite number, at most {LARGEST_CONTEXT:g} from zero"
    if context.value_type == RewardType.BINARY and value not in (0, 1):
        return f"{context.name} is binary: it must be 0 or 1"
    return None


def _chosen_arm(experiment_id: str, context: Sequence[float], rng: np.random.Generator) -> str:
    model = model_of(Experiment.objects.get(pk=experiment_id))
    arms = draw_rows.read_arms(experiment_id)
    return arms[choose_arm(current_posteriors(model, arms), context or (1.0,), rng)].id


def _stored(experiment_id: str, participant_id: str) -> tuple[str, int, str, list[float] | None] | None:
    row = one_row(_STORED, {"experiment": experiment_id, "participant": participant_id})
    return None if row is None else (str(row[0]), int(row[1]), str(row[2]), row[3])
