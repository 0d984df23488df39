"""Assigning a participant of a frequentist experiment to an arm, by the arms' weights and once for all."""

import random
from dataclasses import dataclass

from experiments.errors import InvalidInput
from experiments.models import Arm
from experiments.operations.participants import admission_to, judge_id, one_row

_SYSTEM = random.SystemRandom()
_STORED = """
    SELECT arms.id, arms.position, arms.name, arm_assignments.cluster_id
    FROM arm_assignments JOIN arms ON arms.id = arm_assignments.arm_id
    WHERE arm_assignments.experiment_id = %(experiment)s AND participant_id = %(participant)s
"""
_INSERT = """
    INSERT INTO arm_assignments (experiment_id, participant_id, arm_id, cluster_id)
    VALUES (%(experiment)s, %(participant)s, %(arm)s, %(cluster)s)
    ON CONFLICT (experiment_id, participant_id) DO NOTHING
    RETURNING arm_id
"""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """``replayed``: the participant had this arm before."""

    experiment_id: str
    participant_id: str
    arm_id: str
    arm_position: int
    arm_name: str
    cluster_id: str | None
    replayed: bool


def assign_participant(
    experiment_id: str, participant_id: str, *, cluster_id: str | None = None, rng: random.Random = _SYSTEM
) -> Assignment:
    """The participant's arm: the stored one, else one chosen with chances as the arms' weights.

    Each participant is chosen for alone, also within a cluster; an experiment whose clusters get one arm each is
    assigned by its author and loaded. Whoever is assigned keeps the arm, also after the end.

    Raises ``NotFound``, ``InvalidInput`` for a bandit, an id that cannot be, or a ``cluster_id`` that is missing,
    superfluous or another than before, and ``Conflict`` when the experiment takes no participants now.
    """
    judge_id("participant_id", participant_id)
    admission = admission_to(experiment_id)
    if admission.experiment_type.is_bandit:
        raise InvalidInput(f"{experiment_id} is a bandit: draw its participants", field="experiment_id", code="bandit")
    if admission.clustered:
        judge_id("cluster_id", cluster_id)
    elif cluster_id is not None:
        raise InvalidInput(f"{experiment_id} is not clustered: leave cluster_id out", field="cluster_id")
    replayed = True
    stored = _stored(experiment_id, participant_id)
    while stored is None:
        admission.judge()
        arms = list(Arm.objects.filter(experiment=experiment_id).order_by("position").values_list("id", "arm_weight"))
        chosen = rng.choices([id for id, _ in arms], weights=[weight for _, weight in arms])[0]
        parameters = {"experiment": experiment_id, "participant": participant_id, "arm": chosen, "cluster": cluster_id}
        replayed = one_row(_INSERT, parameters) is None
        # Of two callers at once one inserts; the other waited for that, and reads here what was inserted.
        stored = _stored(experiment_id, participant_id)
    arm_id, position, name, stored_cluster = stored
    if stored_cluster != cluster_id:
        raise InvalidInput(f"{participant_id!r} is in another cluster of {experiment_id}", field="cluster_id")
    return Assignment(
        experiment_id=experiment_id,
        participant_id=participant_id,
        arm_id=arm_id,
        arm_position=position,
        arm_name=name,
        cluster_id=stored_cluster,
        replayed=replayed,
    )


def _stored(experiment_id: str, participant_id: str) -> tuple[str, int, str, str | None] | None:
    row = one_row(_STORED, {"experiment": experiment_id, "participant": participant_id})
    return None if row is None else (str(row[0]), int(row[1]), str(row[2]), row[3])
