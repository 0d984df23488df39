"""The statements around outcomes: arms and draws locked, read, summed up and written, in the caller's transaction.

Locks are taken on arms first, in the order of their ids, then on draws in the order of their keys; whoever keeps to
that never deadlocks with another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from django.db import connections, router

from experiments.models import Draw
from experiments.models.sums import sum_of_lists, sums_by_arm

_ARM_COLUMNS = (
    "id, position, alpha_init, beta_init, mu_init, sigma_init, alpha, beta, mu, covariance,"
    " n_outcomes AS n, sum_y, sum_yy, sum_xy, sum_xx"
)
# The experiment is a column of what is looked up, not a constant. As one, draws of an experiment that statistics do not
# know yet are taken for few, and then each of them is compared with all that is looked up.
_SAME = "array_fill(%(experiment)s::text, ARRAY[%(count)s::integer])"
_NEW = (
    f"unnest({_SAME}, %(participants)s::text[], %(outcomes)s::float8[]) AS new (experiment_id, participant_id, outcome)"
)
# = ANY (ARRAY[...]) is = in a form that only a lookup of the key can serve: with a plain one, and as many outcomes as a
# job records at once, all draws of the experiment would be read and hashed, several times for each batch.
_THEIRS = (
    "draws.experiment_id = ANY (ARRAY[new.experiment_id]) AND draws.participant_id = ANY (ARRAY[new.participant_id])"
)
# A new outcome is never NULL. A condition of draws alone would be served by the index of pending draws, which does
# not know the participants.
_PENDING = "(draws.outcome IS NULL OR new.outcome IS NULL)"
_NEW_OUTCOMES = f"""
    SELECT draws.arm_id, new.outcome, draws.context_vals, 1 AS sign FROM {_NEW} JOIN draws ON {_THEIRS}
"""  # noqa: S608 - put together from constants of this app
_STORED_OUTCOMES = (
    "SELECT arm_id, outcome, context_vals, 1 AS sign FROM draws"
    " WHERE experiment_id = %(experiment)s AND arm_id = ANY(%(arms)s) AND outcome IS NOT NULL"
)


@dataclass(frozen=True, kw_only=True)
class SumsRow:
    """Exact sums of an arm's outcomes; of contexts None without any."""

    arm_id: str
    n: int
    sum_y: Decimal
    sum_yy: Decimal
    sum_xy: list[Decimal] | None
    sum_xx: list[Decimal] | None

    @classmethod
    def empty(cls, arm_id: str) -> Self:
        return cls(arm_id=arm_id, n=0, sum_y=Decimal(0), sum_yy=Decimal(0), sum_xy=None, sum_xx=None)


@dataclass(frozen=True, kw_only=True)
class ArmRow:
    """An arm's prior, cached posterior and sums."""

    id: str
    position: int
    alpha_init: float | None
    beta_init: float | None
    mu_init: float | None
    sigma_init: float | None
    alpha: float | None
    beta: float | None
    mu: list[float] | None
    covariance: list[list[float]] | None
    n: int
    sum_y: Decimal
    sum_yy: Decimal
    sum_xy: list[Decimal] | None
    sum_xx: list[Decimal] | None

    @property
    def sums(self) -> SumsRow:
        return SumsRow(
            arm_id=self.id, n=self.n, sum_y=self.sum_y, sum_yy=self.sum_yy, sum_xy=self.sum_xy, sum_xx=self.sum_xx
        )

    def holds(self, sums: SumsRow, columns: Mapping[str, Any]) -> bool:
        """Whether these are what is stored. Without any outcome a list of zeros is as good as none."""
        if any(getattr(self, name) != value for name, value in columns.items()):
            return False
        return self.sums == sums or (self.n == sums.n == 0 and not self.sum_y and not self.sum_yy)


@dataclass(frozen=True, kw_only=True)
class CountRow:
    """Binary outcomes of an arm at one context."""

    arm_id: str
    context: list[float]
    successes: int
    failures: int


@dataclass(frozen=True, kw_only=True)
class DrawRow:
    participant_id: str
    arm_id: str
    outcome: float | None
    autofailed: bool | None


def find_draws(experiment_id: str, participants: Sequence[str]) -> list[DrawRow]:
    """``participants`` are all different."""
    return _rows(DrawRow, _FIND_DRAWS, _keys(experiment_id, participants))


def lock_draws(experiment_id: str, participants: Sequence[str]) -> list[DrawRow]:
    locking = " ORDER BY draws.participant_id FOR NO KEY UPDATE OF draws"
    return _rows(DrawRow, _FIND_DRAWS + locking, _keys(experiment_id, participants))


_FIND_DRAWS = f"""
    SELECT draws.participant_id, draws.arm_id, draws.outcome, draws.autofailed_outcome AS autofailed
    FROM unnest({_SAME}, %(participants)s::text[]) AS new (experiment_id, participant_id) JOIN draws ON {_THEIRS}
"""  # noqa: S608 - as above


def lock_arms(experiment_id: str, arm_ids: Sequence[str] | None = None) -> list[ArmRow]:
    """These arms, or all, whose sums and posteriors nobody else changes until the transaction ends."""
    chosen = "" if arm_ids is None else " AND id = ANY(%(arms)s)"
    query = f"SELECT {_ARM_COLUMNS} FROM arms WHERE experiment_id = %(experiment)s{chosen}"  # noqa: S608 - constants
    parameters = {"experiment": experiment_id, "arms": None if arm_ids is None else list(arm_ids)}
    return _rows(ArmRow, query + " ORDER BY id FOR NO KEY UPDATE", parameters)


def read_arms(experiment_id: str) -> list[ArmRow]:
    """By position."""
    query = f"SELECT {_ARM_COLUMNS} FROM arms WHERE experiment_id = %(experiment)s ORDER BY position"  # noqa: S608
    return _rows(ArmRow, query, {"experiment": experiment_id})


def sums_with(arms: Sequence[ArmRow], experiment_id: str, outcomes: Mapping[str, float]) -> dict[str, SumsRow]:
    """The arms' sums as they will be with these outcomes of pending draws, by arm id."""
    query = f"""
        SELECT arms.id AS arm_id, arms.n_outcomes + coalesce(delta.n, 0) AS n,
            arms.sum_y + coalesce(delta.sum_y, 0) AS sum_y, arms.sum_yy + coalesce(delta.sum_yy, 0) AS sum_yy,
            {sum_of_lists("arms.sum_xy", "delta.sum_xy")} AS sum_xy,
            {sum_of_lists("arms.sum_xx", "delta.sum_xx")} AS sum_xx
        FROM arms LEFT JOIN ({sums_by_arm(_NEW_OUTCOMES)}) AS delta ON delta.arm_id = arms.id
        WHERE arms.id = ANY(%(arms)s)
    """  # noqa: S608 - as above
    parameters = {**_new(experiment_id, outcomes), "arms": [arm.id for arm in arms]}
    return {row.arm_id: row for row in _rows(SumsRow, query, parameters)}


def sums_of_draws(arms: Sequence[ArmRow], experiment_id: str) -> dict[str, SumsRow]:
    """From all draws of these arms, by arm id; an arm without outcomes is missing."""
    parameters = {"experiment": experiment_id, "arms": [arm.id for arm in arms]}
    return {row.arm_id: row for row in _rows(SumsRow, sums_by_arm(_STORED_OUTCOMES), parameters)}


def counts_of_draws(
    arms: Sequence[ArmRow], experiment_id: str, outcomes: Mapping[str, float] | None = None
) -> list[CountRow]:
    """Of all draws of these arms with an outcome, and of these outcomes of their pending draws."""
    query = f"""
        SELECT arm_id, context_vals AS context, count(*) FILTER (WHERE outcome = 1) AS successes,
            count(*) FILTER (WHERE outcome = 0) AS failures
        FROM ({_STORED_OUTCOMES} UNION ALL {_NEW_OUTCOMES}) AS outcomes
        GROUP BY arm_id, context_vals
    """  # noqa: S608 - as above
    return _rows(CountRow, query, {**_new(experiment_id, outcomes or {}), "arms": [arm.id for arm in arms]})


def write_outcomes(
    experiment_id: str, outcomes: Mapping[str, float], *, autofailed: bool, columns: Mapping[str, Any]
) -> int:
    """Outcomes of one arm's pending draws, with the arm's posterior after them. The triggers add up the sums."""
    query = f"""
        UPDATE draws SET
            outcome = new.outcome, autofailed_outcome = %(autofailed)s, observed_at = now(),
            current_alpha = %(alpha)s, current_beta = %(beta)s,
            current_mu = %(mu)s::float8[], current_covariance = %(covariance)s::float8[]
        FROM {_NEW}
        WHERE {_THEIRS} AND {_PENDING}
    """  # noqa: S608 - as above
    with _connection().cursor() as cursor:
        cursor.execute(query, {**_new(experiment_id, outcomes), **columns, "autofailed": autofailed})
        return int(cursor.rowcount)


def write_arm(arm_id: str, columns: Mapping[str, Any], sums: SumsRow | None = None) -> None:
    """The cached posterior, and where given the sums."""
    query = """
        UPDATE arms SET alpha = %(alpha)s, beta = %(beta)s, mu = %(mu)s::float8[],
            covariance = %(covariance)s::float8[], updated_at = now()
        WHERE id = %(arm)s
    """
    with _connection().cursor() as cursor:
        cursor.execute(query, {**columns, "arm": arm_id})
    if sums is not None:
        write_sums(sums)


def write_sums(sums: SumsRow) -> None:
    """The sums alone, in place of those that triggers kept."""
    query = """
        UPDATE arms SET n_outcomes = %(n)s, sum_y = %(sum_y)s, sum_yy = %(sum_yy)s, sum_xy = %(sum_xy)s::numeric[],
            sum_xx = %(sum_xx)s::numeric[], updated_at = now()
        WHERE id = %(arm_id)s
    """
    names = ("arm_id", "n", "sum_y", "sum_yy", "sum_xy", "sum_xx")
    with _connection().cursor() as cursor:
        cursor.execute(query, {name: getattr(sums, name) for name in names})


def _new(experiment_id: str, outcomes: Mapping[str, float]) -> dict[str, Any]:
    return {**_keys(experiment_id, list(outcomes)), "outcomes": list(outcomes.values())}


def _keys(experiment_id: str, participants: Sequence[str]) -> dict[str, Any]:
    return {"experiment": experiment_id, "participants": list(participants), "count": len(participants)}


def _rows[Row](row: type[Row], query: str, parameters: Mapping[str, Any]) -> list[Row]:
    with _connection().cursor() as cursor:
        cursor.execute(query, parameters)
        names = [column.name for column in cursor.description or ()]
        return [row(**dict(zip(names, values, strict=True))) for values in cursor.fetchall()]


def _connection() -> Any:
    return connections[router.db_for_write(Draw)]
