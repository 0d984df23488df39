"""The queries that are sent: sums of the metrics by arm (or cluster), and the outcomes of single participants."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from experiments.warehouse.columns import Column, Table
from experiments.warehouse.deviations import anchored, centred, deviated, judged, summed
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.metrics import reading
from experiments.warehouse.outcomes import OutcomeRow, outcome_reading, outcome_rows, parse_outcomes
from experiments.warehouse.people import TABLE, identity, keyed_and_found, people, step_names
from experiments.warehouse.render import column, text_of, with_steps
from experiments.warehouse.sums import GroupSums, parse_sums


@dataclass(frozen=True, kw_only=True)
class Query[Row]:
    """``sql`` has one placeholder, that of a chunk (``pairs.chunks``), and is the same text for every chunk.

    ``parse`` takes the rows as the driver returned them.
    """

    sql: str
    parse: Callable[[Iterable[tuple[object, ...]]], tuple[Row, ...]]


def arm_sums(
    *, dialect: Dialect, table: Table, id_column: Column, metrics: Sequence[Column], clustered: bool
) -> Query[GroupSums]:
    """Sums by arm, or by arm and cluster, over the participants of a chunk who are in ``table``.

    Raises DatasourceError (``id_type_unsupported``, ``metric_type_unsupported``).
    """
    names = step_names(table)
    sources = [column(TABLE, metric.name) for metric in metrics]
    readings = [(source, reading(metric, source, dialect)) for metric, source in zip(metrics, sources, strict=True)]
    unit = ["a", "c"] if clustered else ["a"]
    person = [*identity("k", id_column, dialect), *unit]
    steps: list[tuple[str, exp.Query]] = [
        *keyed_and_found(
            dialect=dialect, table=table, id_column=id_column, readings=readings, keep=person, names=names
        ),
        (names.people, people(readings=readings, group=person, show=unit, names=names)),
    ]
    kinds = [kind for _, kind in readings]
    steps.append((names.judged, judged(kinds, unit=unit, source=names.people)))
    steps.append((names.anchored, anchored(kinds, unit=unit, source=names.judged, dialect=dialect)))
    steps.append((names.centred, centred(kinds, unit=unit, source=names.anchored, dialect=dialect)))
    steps.append((names.deviated, deviated(kinds, unit=unit, source=names.centred)))
    final = summed(len(kinds), unit=unit, source=names.deviated)
    return Query(
        sql=text_of(with_steps(final, steps), dialect),
        parse=partial(parse_sums, metrics=tuple(metrics), clustered=clustered),
    )


def outcomes(*, dialect: Dialect, table: Table, id_column: Column, outcome: Column) -> Query[OutcomeRow]:
    """What the warehouse says of each participant of a chunk who is there.

    Raises DatasourceError (``id_type_unsupported``, ``metric_type_unsupported``).
    """
    names = step_names(table)
    source = column(TABLE, outcome.name)
    readings = [(source, outcome_reading(outcome, source, dialect))]
    person = identity("p", id_column, dialect)
    steps = [
        *keyed_and_found(
            dialect=dialect, table=table, id_column=id_column, readings=readings, keep=person, names=names
        ),
        (names.people, people(readings=readings, group=person, show=["p"], names=names)),
    ]
    final = outcome_rows(readings[0][1], outcome, source=names.people)
    return Query(sql=text_of(with_steps(final, steps), dialect), parse=partial(parse_outcomes, outcome=outcome))
