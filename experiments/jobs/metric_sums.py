"""Totals of an experiment's metrics, collected chunk by chunk from a warehouse that aggregates."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from experiments.jobs.assignments import Assignments
from experiments.jobs.definition import Definition
from experiments.jobs.identities import Identities
from experiments.stats.clusters import ClusterCells, ClusterCellsBuilder
from experiments.stats.frequentist import ArmSums
from experiments.stats.sufficient import Moments
from experiments.warehouse.columns import Column, Table
from experiments.warehouse.pairs import chunks, id_rule, limits
from experiments.warehouse.query import arm_sums
from experiments.warehouse.session import Warehouse
from experiments.warehouse.sums import GroupSums

type Rows = list[tuple[object, ...]]


@dataclass(frozen=True, kw_only=True)
class MetricTotals:
    """One metric over all chunks, ready for the statistics."""

    arms: tuple[ArmSums, ...]
    clusters: ClusterCells | None


@dataclass(frozen=True, kw_only=True)
class Totals:
    """By arm: ``n_found`` have a row in the warehouse, ``n_ambiguous`` share their id with another assignment."""

    metrics: Mapping[str, MetricTotals]
    assignments: Assignments
    n_found: tuple[int, ...]
    n_ambiguous: tuple[int, ...]
    n_chunks: int


def read_totals(
    definition: Definition, warehouse: Warehouse, *, table: Table, id_column: Column, metrics: Mapping[str, Column]
) -> Totals:
    """Raises ``DatasourceError``; then nothing is known of any of ``metrics``."""
    query = arm_sums(
        dialect=warehouse.dialect,
        table=table,
        id_column=id_column,
        metrics=list(metrics.values()),
        clustered=definition.clustered,
    )
    limit = limits(warehouse.dialect)
    n_arms = len(definition.arms)
    assignments = Assignments(
        definition.id, arm_index=definition.arm_index, clustered=definition.clustered, page_rows=limit.rows
    )
    identities = Identities(id_rule(id_column), definition.id, n_arms=n_arms)
    sums = [_MetricSums(n_arms, clustered=definition.clustered) for _ in metrics]
    n_found, n_chunks = [0] * n_arms, 0
    sent = (chunk for page in assignments.pages() for chunk in chunks(identities.to_send(page), limit))
    # Closed at once when something fails here, or the next query would go on without anybody to wait for it.
    with closing(_answers(warehouse, query.sql, (chunk.parameter for chunk in sent))) as answers:
        for rows in answers:
            n_chunks += 1
            groups = query.parse(rows)
            for group in groups:
                n_found[group.arm] += group.n_found
            for position, metric in enumerate(sums):
                metric.add(groups, position)
    return Totals(
        metrics={
            name: metric.totals(assignments.n_assigned, n_found, identities.n_ambiguous)
            for name, metric in zip(metrics, sums, strict=True)
        },
        assignments=assignments,
        n_found=tuple(n_found),
        n_ambiguous=tuple(identities.n_ambiguous),
        n_chunks=n_chunks,
    )


def _answers(warehouse: Warehouse, sql: str, parameters: Iterable[str]) -> Generator[Rows]:
    """The warehouse's answer to each parameter, in order; the next parameter is made while it works on one."""
    with ThreadPoolExecutor(1, thread_name_prefix="warehouse") as thread:
        working: Future[Rows] | None = None
        try:
            for parameter in parameters:
                answered = [] if working is None else [working.result()]
                working = thread.submit(warehouse.fetch, sql, parameter)
                yield from answered
            if working is not None:
                yield working.result()
        except BaseException:
            if working is not None and not working.done():
                # Nobody waits for the answer any more, and leaving the thread must not wait for it either.
                warehouse.cancel()
            raise


class _MetricSums:
    """What was added up of one metric so far."""

    def __init__(self, n_arms: int, *, clustered: bool) -> None:
        self._moments = [Moments.empty() for _ in range(n_arms)]
        self._cells = ClusterCellsBuilder() if clustered else None
        self._n_null = [0] * n_arms
        self._n_non_finite = [0] * n_arms
        self._n_duplicate = [0] * n_arms

    def add(self, groups: Sequence[GroupSums], position: int) -> None:
        """The groups of one chunk. All groups of an arm have the same centre in it, so their sums add up."""
        for group in groups:
            arm, metric = group.arm, group.metrics[position]
            self._n_null[arm] += metric.n_null
            self._n_non_finite[arm] += metric.n_non_finite
            self._n_duplicate[arm] += metric.n_duplicate
            # A sum beyond the range of doubles stays known as such: the statistics refuse to estimate from it.
            centre = 0 if metric.overflow else metric.centre
            sum_dev, sum_sq_dev = (math.inf,) * 2 if metric.overflow else (metric.sum_dev, metric.sum_sq_dev)
            moments = Moments.from_centred(n=metric.n, centre=centre, sum_dev=sum_dev, sum_sq_dev=sum_sq_dev)
            self._moments[arm] = self._moments[arm].merge(moments)
            if self._cells is not None and group.cluster is not None:
                self._cells.add(arm=arm, cluster=group.cluster, n=metric.n, centre=centre, sum_dev=sum_dev)

    def totals(self, n_assigned: Sequence[int], n_found: Sequence[int], n_ambiguous: Sequence[int]) -> MetricTotals:
        return MetricTotals(
            arms=tuple(
                ArmSums(
                    arm=arm,
                    n_assigned=n_assigned[arm],
                    moments=moments,
                    n_not_in_warehouse=n_assigned[arm] - n_found[arm] - n_ambiguous[arm],
                    n_null=self._n_null[arm],
                    n_non_finite=self._n_non_finite[arm],
                    n_duplicate=self._n_duplicate[arm] + n_ambiguous[arm],
                )
                for arm, moments in enumerate(self._moments)
            ),
            clusters=self._cells.build() if self._cells is not None else None,
        )
