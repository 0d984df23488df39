"""Rules of the caches on arms: the sums of their outcomes, and the posteriors that follow from all draws.

Numerical libraries are imported when a row is judged, so that the start of a process does not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from experiments.errors import InvalidInput
from experiments.kinds import ExperimentType, PriorType, RewardType
from experiments.models.sums import sums_by_arm
from experiments.reconciliation.posterior_repairs import RECOMPUTE_POSTERIOR, RECOMPUTE_SUMS
from experiments.reconciliation.statements import statement
from taskqueue.reconciliation.rules import Check, Found, Kind, Row, Rule, Severity

if TYPE_CHECKING:
    from experiments.operations.draw_rows import ArmRow, SumsRow
    from experiments.operations.posteriors import Model

SUMS = ("n_outcomes", "sum_y", "sum_yy", "sum_xy", "sum_xx")
CACHE = ("alpha", "beta", "mu", "covariance")
# Beyond as many distinct contexts of one arm they are not kept: the stored mode is checked as they stream by.
MOST_CONTEXTS = 50_000
# Of a mean in posterior standard deviations, of a covariance relative to its variances, of a count relative to itself.
TOLERANCE = 1e-6

ARM_SUMS = Rule(
    name="experiments.arm_sums",
    kind=Kind.INCONSISTENT,
    severity=Severity.CRITICAL,
    table="arms",
    meaning="`n_outcomes` and the sums of an arm are those of its draws with an outcome.",
    arises="draws were written or deleted with the triggers off, or a program wrote the sums.",
    guidance="The draws are the record, the sums follow from them: repair the sums, and the posteriors with them.",
    repair=RECOMPUTE_SUMS,
)
POSTERIOR = Rule(
    name="experiments.posterior",
    kind=Kind.STALE,
    severity=Severity.CRITICAL,
    table="arms",
    meaning="the cached posterior of an arm is that of its prior and all its outcomes.",
    arises="outcomes were written with plain SQL, which keeps the sums but computes no posterior; or a program"
    " wrote the cached columns.",
    guidance="Repair it. Where it cannot be computed, the draws or the prior are out of range: mend those first.",
    repair=RECOMPUTE_POSTERIOR,
)
CONTEXTUAL_POSTERIOR = Rule(
    name="experiments.contextual_posterior",
    kind=Kind.STALE,
    severity=Severity.CRITICAL,
    table="arms",
    meaning="the cached posterior of an arm of a contextual bandit with binary rewards is the mode, and the"
    " curvature there, of its prior and all its outcomes.",
    arises="as `experiments.posterior`.",
    guidance="Repair it. Where it cannot be computed, the draws or the prior are out of range: mend those first.",
    repair=RECOMPUTE_POSTERIOR,
)


def bandit(rows: Iterable[Row]) -> Iterator[Found]:
    """The arms of one experiment, with the sums of their draws beside them."""
    from experiments.operations.posteriors import posteriors_of

    arms = list(rows)
    if not arms:
        return
    model = _model_of(arms[0])
    stored = {arm["id"]: _arm_row(arm) for arm in arms}
    found = {arm["id"]: _sums_row(arm) for arm in arms}
    for arm in arms:
        if not _same_sums(arm):
            yield Found(
                rule=ARM_SUMS.name,
                subject={"id": arm["id"], "experiment_id": model.experiment_id},
                expected={name: arm[f"drawn_{name}"] for name in SUMS},
                observed={name: arm[name] for name in SUMS},
                before={name: arm[name] for name in SUMS},
            )
    if model.counts_by_context:
        return
    try:
        posteriors = posteriors_of(model, list(stored.values()), found)
    except InvalidInput as error:
        yield from (_impossible(POSTERIOR, arm["id"], model.experiment_id, error) for arm in arms)
        return
    for arm in arms:
        yield from _judged(POSTERIOR, arm, model.experiment_id, posteriors[arm["id"]], n=found[arm["id"]].n)


def contextual(rows: Iterable[Row]) -> Iterator[Found]:
    """Outcomes by context, arm by arm."""
    for _, group in groupby(rows, key=itemgetter("arm_id")):
        first = next(group)
        try:
            yield from _contextual_arm(first, chain([first], group))  # noqa: B031 - the rest of it, once
        except (ValueError, ArithmeticError) as error:
            yield _impossible(CONTEXTUAL_POSTERIOR, first["arm_id"], first["experiment_id"], error)


def _contextual_arm(arm: Row, rows: Iterable[Row]) -> Iterator[Found]:
    """Exactly from all contexts while they are few; else the stored mode is checked as they stream by."""
    from experiments.stats.laplace import ContextCount, logistic_posterior
    from experiments.stats.laplace_check import ModeCheck
    from experiments.stats.priors import NormalPrior

    if arm["mu_init"] is None or arm["sigma_init"] is None:
        raise ValueError("the arm has no normal prior")
    prior = NormalPrior(mean=arm["mu_init"], sd=arm["sigma_init"], dimensions=max(arm["contexts"], 1))
    is_cached = arm["mu"] is not None and arm["covariance"] is not None
    check: ModeCheck | None = None
    counts: list[ContextCount] = []
    n = 0
    for row in rows:
        if row["context"] is None:
            continue
        n += row["successes"] + row["failures"]
        counts.append(ContextCount(x=tuple(row["context"]), successes=row["successes"], failures=row["failures"]))
        if len(counts) == MOST_CONTEXTS:
            if is_cached:
                check = check or ModeCheck.of(prior, mu=arm["mu"], covariance=arm["covariance"])
                check.add(counts)
            counts = []
    if n and not is_cached:
        yield _found(CONTEXTUAL_POSTERIOR, arm, arm["experiment_id"], {"posterior_of_outcomes": n})
    elif check is None:
        posterior = logistic_posterior(prior, counts)
        yield from _judged(CONTEXTUAL_POSTERIOR, arm, arm["experiment_id"], posterior, n=n)
    else:
        check.add(counts)
        if check.distance() > TOLERANCE:
            expected = {"mu": check.better_mode(), "which_is": "one Newton step from the stored mode"}
            yield _found(CONTEXTUAL_POSTERIOR, arm, arm["experiment_id"], expected)


def _judged(rule: Rule, arm: Row, experiment_id: str, posterior: Any, *, n: int) -> Iterator[Found]:
    from experiments.operations.posteriors import columns_of

    if n == 0 and all(arm.get(name) is None for name in CACHE):
        # Nothing was recorded yet, so the prior holds.
        return
    expected = columns_of(posterior)
    if not _close(arm, expected):
        yield _found(rule, arm, experiment_id, expected)


def _found(rule: Rule, arm: Row, experiment_id: str, expected: Mapping[str, Any]) -> Found:
    cached = {name: arm.get(name) for name in CACHE}
    return Found(
        rule=rule.name,
        subject={"id": arm.get("arm_id", arm.get("id")), "experiment_id": experiment_id},
        expected=expected,
        observed=cached,
        before=cached,
    )


def _impossible(rule: Rule, arm_id: str, experiment_id: str, error: Exception) -> Found:
    return Found(
        rule=rule.name,
        subject={"id": arm_id, "experiment_id": experiment_id},
        expected="a posterior",
        observed=f"it cannot be computed: {error}",
    )


def _close(arm: Row, expected: Mapping[str, Any]) -> bool:
    if any((arm.get(name) is None) != (expected[name] is None) for name in CACHE):
        return False
    if expected["alpha"] is not None:
        return all(abs(arm[name] - expected[name]) <= TOLERANCE * expected[name] for name in ("alpha", "beta"))
    mu, covariance = expected["mu"], expected["covariance"]
    size = range(len(mu))
    if len(arm["mu"]) != len(mu) or [len(row) for row in arm["covariance"]] != [len(mu)] * len(mu):
        return False
    sd = [covariance[i][i] ** 0.5 for i in size]
    return all(abs(arm["mu"][i] - mu[i]) <= TOLERANCE * sd[i] for i in size) and all(
        abs(arm["covariance"][i][j] - covariance[i][j]) <= TOLERANCE * sd[i] * sd[j] for i in size for j in size
    )


def _same_sums(arm: Row) -> bool:
    if arm["n_outcomes"] == arm["drawn_n_outcomes"] == 0:
        # Without any outcome a list of zeros is as good as none.
        return not arm["sum_y"] and not arm["sum_yy"] and not any(arm["sum_xy"] or ()) and not any(arm["sum_xx"] or ())
    return all(arm[name] == arm[f"drawn_{name}"] for name in SUMS)


def _model_of(row: Row) -> Model:
    from experiments.operations.posteriors import Model

    return Model(
        experiment_id=row["experiment_id"],
        experiment_type=ExperimentType(row["experiment_type"]),
        prior_type=PriorType(row["prior_type"]),
        reward_type=RewardType(row["reward_type"]),
        noise_sd=row["noise_sd"],
        contexts=row["contexts"],
    )


def _arm_row(row: Row) -> ArmRow:
    from experiments.operations.draw_rows import ArmRow

    names = ("id", "position", "alpha_init", "beta_init", "mu_init", "sigma_init", *CACHE)
    sums = {name: row[name] for name in SUMS if name != "n_outcomes"}
    return ArmRow(**{name: row[name] for name in names}, **sums, n=row["n_outcomes"])


def _sums_row(row: Row) -> SumsRow:
    from experiments.operations.draw_rows import SumsRow

    sums = {name: row[f"drawn_{name}"] for name in SUMS if name != "n_outcomes"}
    return SumsRow(arm_id=row["id"], n=row["drawn_n_outcomes"], **sums)


_DRAWN = """
    SELECT arm_id, outcome, context_vals, 1 AS sign FROM draws
    WHERE experiment_id = %(scope)s AND outcome IS NOT NULL
"""
_ARMS_WITH_SUMS = f"""
    SELECT a.id, a.experiment_id, a.position, a.alpha_init, a.beta_init, a.mu_init, a.sigma_init, a.alpha, a.beta, a.mu,
        a.covariance, a.n_outcomes, a.sum_y, a.sum_yy, a.sum_xy, a.sum_xx,
        coalesce(drawn.n, 0) AS drawn_n_outcomes, coalesce(drawn.sum_y, 0) AS drawn_sum_y,
        coalesce(drawn.sum_yy, 0) AS drawn_sum_yy, drawn.sum_xy AS drawn_sum_xy, drawn.sum_xx AS drawn_sum_xx,
        e.experiment_type, e.prior_type, e.reward_type, e.noise_sd,
        CASE WHEN e.experiment_type = 'cmab_online'
            THEN (SELECT count(*) FROM context WHERE experiment_id = %(scope)s) ELSE 0 END AS contexts
    FROM arms a
    JOIN experiments e ON e.id = a.experiment_id
    LEFT JOIN ({sums_by_arm(_DRAWN)}) AS drawn ON drawn.arm_id = a.id
    WHERE a.experiment_id = %(scope)s
    ORDER BY a.position
"""  # noqa: S608 - put together from constants of this app

CHECKS = (
    Check(rules=(ARM_SUMS, POSTERIOR), each=statement("bandits"), statement=_ARMS_WITH_SUMS, judge=bandit),
    Check(
        rules=(CONTEXTUAL_POSTERIOR,),
        each=statement("contextual_bandits"),
        statement=statement("outcomes_by_context"),
        judge=contextual,
    ),
)
