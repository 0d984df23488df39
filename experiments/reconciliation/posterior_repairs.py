"""Repairs of the caches on arms: made anew from the draws, while nobody records outcomes of the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskqueue.errors import RepairRefused
from taskqueue.reconciliation.repairs import REFUSED, unchanged
from taskqueue.reconciliation.rules import Order, Repair


def _recompute_sums(order: Order) -> Mapping[str, Any]:
    from experiments.operations import draw_rows
    from experiments.operations.draw_rows import SumsRow

    arms = draw_rows.lock_arms(order.subject["experiment_id"])
    arm = next((arm for arm in arms if arm.id == order.subject["id"]), None)
    unchanged(order, None if arm is None else _sums(arm.sums))
    assert arm is not None  # noqa: S101 - a missing row was refused
    sums = draw_rows.sums_of_draws([arm], order.subject["experiment_id"]).get(arm.id, SumsRow.empty(arm.id))
    draw_rows.write_sums(sums)
    return _sums(sums)


def _recompute_posterior(order: Order) -> Mapping[str, Any]:
    from experiments.errors import InvalidInput
    from experiments.models import Experiment
    from experiments.operations import draw_rows
    from experiments.operations.posteriors import columns_of, model_of, posteriors_of

    experiment_id = order.subject["experiment_id"]
    arms = draw_rows.lock_arms(experiment_id)
    arm = next((arm for arm in arms if arm.id == order.subject["id"]), None)
    unchanged(order, None if arm is None else {name: getattr(arm, name) for name in order.before})
    assert arm is not None  # noqa: S101 - a missing row was refused
    try:
        model = model_of(Experiment.objects.get(pk=experiment_id))
        needed = arms if model.shares_noise else [arm]
        sums = draw_rows.sums_of_draws(needed, experiment_id)
        counts = draw_rows.counts_of_draws(needed, experiment_id) if model.counts_by_context else []
        columns = columns_of(posteriors_of(model, needed, sums, counts)[arm.id])
    except InvalidInput as error:
        raise RepairRefused(REFUSED, str(error)) from error
    draw_rows.write_arm(arm.id, columns)
    return columns


def _sums(sums: Any) -> dict[str, Any]:
    return {
        "n_outcomes": sums.n,
        "sum_y": sums.sum_y,
        "sum_yy": sums.sum_yy,
        "sum_xy": sums.sum_xy,
        "sum_xx": sums.sum_xx,
    }


RECOMPUTE_SUMS = Repair(
    name="recompute_sums",
    text="the sums are made anew from the arm's draws, while its row is locked against new outcomes.",
    apply=_recompute_sums,
)
RECOMPUTE_POSTERIOR = Repair(
    name="recompute_posterior",
    text="the cached posterior is made anew from all draws, while the arms are locked against new outcomes.",
    apply=_recompute_posterior,
)
