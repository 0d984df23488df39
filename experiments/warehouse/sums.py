"""The sums that come back of one chunk: per arm, or per arm and cluster, and of each metric."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import SupportsFloat, SupportsInt, cast

from experiments.warehouse.columns import Column, Family

# The columns of one metric in a row of the result, in their order.
FIELDS = ("n", "centre", "sum_dev", "sum_sq_dev", "n_null", "n_non_finite", "n_duplicate", "n_too_large")


@dataclass(frozen=True, kw_only=True)
class MetricSums:
    """Sums of value - ``centre`` over the ``n`` participants with one agreed finite value.

    ``centre`` is a number near the mean of the arm in this chunk, in the exact type of the column: int, Decimal or
    float. ``overflow``: a value or a sum is beyond the range (1e140 for doubles, see docs/warehouse-queries.md), so
    nothing can be estimated; then ``centre`` is None and the sums are 0, while the counts hold.
    """

    n: int
    centre: int | float | Decimal | None
    sum_dev: float
    sum_sq_dev: float
    n_null: int
    n_non_finite: int
    n_duplicate: int
    overflow: bool = False


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """One arm, or one cluster within an arm. ``n_found``: assigned participants with a row in the warehouse."""

    arm: int
    cluster: int | None
    n_found: int
    metrics: tuple[MetricSums, ...]


def parse_sums(
    rows: Iterable[tuple[object, ...]], *, metrics: Sequence[Column], clustered: bool
) -> tuple[GroupSums, ...]:
    """The rows of ``query.arm_sums`` as the driver returned them."""
    return tuple(_group(row, metrics=metrics, clustered=clustered) for row in rows)


def _group(row: tuple[object, ...], *, metrics: Sequence[Column], clustered: bool) -> GroupSums:
    head = 3 if clustered else 2
    width = len(FIELDS)
    return GroupSums(
        arm=_int(row[0]),
        cluster=_int(row[1]) if clustered else None,
        n_found=_int(row[head - 1]),
        metrics=tuple(
            _metric(row[head + i * width : head + (i + 1) * width], metric.family) for i, metric in enumerate(metrics)
        ),
    )


def _metric(cells: tuple[object, ...], family: Family) -> MetricSums:
    n, centre, sum_dev, sum_sq_dev, n_null, n_non_finite, n_duplicate, n_too_large = cells
    deviations, squares = _float(sum_dev), _float(sum_sq_dev)
    overflow = _int(n_too_large) > 0 or not (math.isfinite(deviations) and math.isfinite(squares))
    return MetricSums(
        n=_int(n) + _int(n_too_large),
        centre=None if overflow or centre is None else _centre(centre, family),
        sum_dev=0.0 if overflow else deviations,
        sum_sq_dev=0.0 if overflow else squares,
        n_null=_int(n_null),
        n_non_finite=_int(n_non_finite),
        n_duplicate=_int(n_duplicate),
        overflow=overflow,
    )


def _centre(value: object, family: Family) -> int | float | Decimal:
    if isinstance(value, float) and family not in (Family.BOOLEAN, Family.INTEGER):
        return value  # decimals without a usable scale are read as doubles
    exact = Decimal(str(value))
    return int(exact) if family in (Family.BOOLEAN, Family.INTEGER) else exact


def _int(value: object) -> int:
    return int(cast(SupportsInt, value))


def _float(value: object) -> float:
    """A sum over nothing is NULL in SQL."""
    return 0.0 if value is None else float(cast(SupportsFloat, value))
