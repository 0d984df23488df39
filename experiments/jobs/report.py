"""The numbers of an analysis as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines_of(data: Mapping[str, Any]) -> Iterator[str]:
    """``data`` is that of a snapshot."""
    yield f"{data['experiment_id']} ({data['experiment_type']}), analysed at {data['analyzed_at']}"
    counts = data["counts"]
    if "metric_analyses" in data:
        yield f"{counts['n_assigned']:,} assigned, {counts['n_not_in_warehouse']:,} of them not in the warehouse"
        ratio = data["sample_ratio"]
        if ratio["mismatch"]:
            yield f"WARNING: the arms have not the shares their weights promise (p = {_number(ratio['p_value'])})"
        for metric in data["metric_analyses"]:
            yield from _metric(metric, data)
        return
    yield f"{counts['n_draws']:,} draws, {counts['n_outcomes']:,} outcomes ({counts['n_autofailed']:,} automatic)"
    for arm in data["arm_analyses"]:
        interval = _interval(arm["post_pred_ci_lower"], arm["post_pred_ci_upper"])
        yield f"  {arm['arm_name']}: {_number(arm['post_pred_mean'])} {interval}, best with {_share(arm['p_best'])}"
        if arm["reason"]:
            yield f"    {arm['reason']}"


def _metric(metric: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{metric['metric_name']}:"
    if metric["reason"]:
        yield f"  cannot be analysed ({metric['error_code']}): {metric['reason']}"
        return
    for arm in metric["arm_analyses"]:
        if arm["is_baseline"]:
            what = f"mean {_number(arm['mean'])} {_interval(arm['mean_ci_lower'], arm['mean_ci_upper'])}, baseline"
        else:
            what = f"effect {_number(arm['estimate'])} {_interval(arm['ci_lower'], arm['ci_upper'])}"
            what += f", p = {_number(arm['p_value'])}"
        yield f"  {arm['arm_name']}: {what}, {arm['n_used']:,} of {arm['n_assigned']:,} ({arm['status']})"
        if arm["reason"]:
            yield f"    {arm['reason']}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _interval(low: float | None, high: float | None) -> str:
    return "[no interval]" if low is None or high is None else f"[{low:.6g}, {high:.6g}]"


def _share(value: float | None) -> str:
    return "unknown probability" if value is None else f"probability {value:.1%}"
