"""The analysis of an A/B experiment: assignments from our tables, sums from the warehouse, statistics from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.errors import DatasourceError
from experiments.jobs.assignments import Assignments
from experiments.jobs.definition import Definition
from experiments.jobs.metric_sums import MetricTotals, Totals, read_totals
from experiments.stats.confidence_sequence import TUNED_AT
from experiments.stats.frequentist import analyze_metric
from experiments.stats.multiplicity import with_holm
from experiments.stats.results import MetricResult
from experiments.stats.srm import SampleRatio, sample_ratio
from experiments.warehouse.columns import Column
from experiments.warehouse.metrics import refuse_unless_metric
from experiments.warehouse.names import find_column
from experiments.warehouse.session import Warehouse

# With these the warehouse may object to one column only, so each metric is tried alone.
_PERHAPS_ONE_METRIC = frozenset({"query_failed", "permission_denied", "column_missing"})
_BASELINE = 0


@dataclass(frozen=True, kw_only=True)
class MetricAnalysis:
    """``result`` is None when the warehouse could not tell; ``error_code`` and ``reason`` say why."""

    name: str
    result: MetricResult | None
    error_code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Of participants, by arm. ``n_ambiguous`` share their id with another assignment: no row is surely theirs."""

    n_assigned: tuple[int, ...]
    n_not_in_warehouse: tuple[int, ...]
    n_ambiguous: tuple[int, ...]
    n_chunks: int


@dataclass(frozen=True, kw_only=True)
class FrequentistAnalysis:
    metrics: tuple[MetricAnalysis, ...]
    counts: Counts
    sample_ratio: SampleRatio


def analyze(definition: Definition, warehouse: Warehouse) -> FrequentistAnalysis:
    """Raises ``DatasourceError`` when nothing at all can be computed: the table or the id's column is missing, the
    warehouse is away or out of time. What concerns one metric is said of that metric."""
    reading = _Reading(definition, warehouse)
    metrics, totals = reading.read()
    results = {name: _result(definition, total) for name, total in metrics.items()}
    adjusted = dict(zip(results, with_holm(list(results.values())), strict=True))
    n_assigned = totals.assignments.n_assigned
    away = zip(n_assigned, totals.n_found, totals.n_ambiguous, strict=True)
    return FrequentistAnalysis(
        metrics=tuple(
            _metric(name, adjusted.get(name), reading.failed.get(name)) for name in dict.fromkeys(definition.metrics)
        ),
        counts=Counts(
            n_assigned=tuple(n_assigned),
            n_not_in_warehouse=tuple(assigned - found - ambiguous for assigned, found, ambiguous in away),
            n_ambiguous=totals.n_ambiguous,
            n_chunks=totals.n_chunks,
        ),
        sample_ratio=_sample_ratio(definition, totals.assignments),
    )


class _Reading:
    """All metrics in one pass over the warehouse, or each alone when it objects; ``failed`` are the others."""

    def __init__(self, definition: Definition, warehouse: Warehouse) -> None:
        self._definition = definition
        self._warehouse = warehouse
        self._table = warehouse.describe(definition.warehouse_table)
        self._id_column = find_column(self._table, definition.warehouse_id)
        self.failed: dict[str, DatasourceError] = {}

    def read(self) -> tuple[dict[str, MetricTotals], Totals]:
        found = self._find()
        try:
            totals = self._read(found)
            return dict(totals.metrics), totals
        except DatasourceError as error:
            if error.code not in _PERHAPS_ONE_METRIC or not found:
                raise
        # Whatever is wrong with one column must not spoil the others. A fault of the table shows without any metric.
        totals = self._read({})
        metrics: dict[str, MetricTotals] = {}
        for name, column in found.items():
            try:
                metrics.update(self._read({name: column}).metrics)
            except DatasourceError as error:
                if error.code not in _PERHAPS_ONE_METRIC:
                    raise
                self.failed[name] = error
        return metrics, totals

    def _find(self) -> dict[str, Column]:
        found: dict[str, Column] = {}
        for name in self._definition.metrics:
            try:
                column = find_column(self._table, name)
                refuse_unless_metric(column)
                found[name] = column
            except DatasourceError as error:
                self.failed[name] = error
        return found

    def _read(self, metrics: Mapping[str, Column]) -> Totals:
        return read_totals(
            self._definition, self._warehouse, table=self._table, id_column=self._id_column, metrics=metrics
        )


def _result(definition: Definition, total: MetricTotals) -> MetricResult:
    return analyze_metric(
        arms=total.arms,
        baseline=_BASELINE,
        alpha=definition.alpha,
        power=definition.power,
        clusters=total.clusters,
        sequence_tuned_at=definition.desired_n or TUNED_AT,
    )


def _metric(name: str, result: MetricResult | None, error: DatasourceError | None) -> MetricAnalysis:
    if error is None:
        return MetricAnalysis(name=name, result=result)
    return MetricAnalysis(name=name, result=None, error_code=error.code, reason=str(error))


def _sample_ratio(definition: Definition, assignments: Assignments) -> SampleRatio:
    """Of what was assigned: clusters where each lies in one arm, otherwise participants."""
    counts: Sequence[int] = assignments.n_assigned
    if definition.clustered:
        if not assignments.clusters_lie_in_one_arm:
            return SampleRatio(
                chi_square=None,
                df=None,
                p_value=None,
                mismatch=None,
                reason="arms vary within clusters, so counts of participants are not independent",
            )
        counts = assignments.clusters_in_arm
    return sample_ratio(counts=counts, weights=[arm.weight for arm in definition.arms])
