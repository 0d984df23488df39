"""What the warehouse says of the outcome of single participants: its columns, and the rows that come back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsInt, cast

from sqlglot import exp

from experiments.warehouse import render
from experiments.warehouse.columns import Column, Family
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.metrics import Reading, reading
from experiments.warehouse.people import agree, all_non_finite, all_null
from experiments.warehouse.render import column, named, step

# Enough to show what is wrong with a text that should be a number.
LONGEST_TEXT = 200


@dataclass(frozen=True, kw_only=True)
class OutcomeRow:
    """``participant`` is the id as it was sent (canonical). ``value`` is None unless all rows agree on one finite
    value; a boolean stays one, and a text comes back as text, at most 200 characters of it, for the caller to refuse.

    ``agreed``: all rows have the same value, or all NULL, or none is finite. ``non_finite``: no row has a finite
    value, and none is NULL.
    """

    participant: str
    n_rows: int
    value: object
    agreed: bool
    non_finite: bool


def outcome_reading(outcome: Column, source: exp.Column, dialect: Dialect) -> Reading:
    """Numbers as metrics are read, other types that have a text as text.

    Raises DatasourceError (``metric_type_unsupported``) for dates, documents and the like.
    """
    if outcome.family not in (Family.TEXT, Family.UUID):
        return reading(outcome, source, dialect)
    value = render.cast(source, render.TEXT)
    return Reading(value=value, may_be_non_finite=False, exact=None, scale=None, largest=None)


def outcome_rows(reading: Reading, outcome: Column, *, source: str) -> exp.Select:
    value: exp.Expr = column(source, "low_0")
    if outcome.family in (Family.TEXT, Family.UUID):
        value = exp.Left(this=value, expression=exp.Literal.number(LONGEST_TEXT))
    agreed = exp.or_(agree(source, 0), all_null(source, 0, reading))
    non_finite: exp.Expr = exp.Literal.number(0)
    if reading.may_be_non_finite:
        agreed = exp.or_(agreed, all_non_finite(source, 0, reading))
        non_finite = _flag(all_non_finite(source, 0, reading))
    return exp.select(
        column(source, "p"),
        column(source, "n_rows"),
        named(exp.Case().when(agree(source, 0), value), "value"),
        named(_flag(agreed), "agreed"),
        named(non_finite, "non_finite"),
    ).from_(step(source))


def parse_outcomes(rows: Iterable[tuple[object, ...]], *, outcome: Column) -> tuple[OutcomeRow, ...]:
    """The rows of ``query.outcomes`` as the driver returned them."""
    boolean = outcome.family is Family.BOOLEAN
    return tuple(
        OutcomeRow(
            participant=str(participant),
            n_rows=int(cast(SupportsInt, n_rows)),
            value=bool(value) if boolean and value is not None else value,
            agreed=bool(agreed),
            non_finite=bool(non_finite),
        )
        for participant, n_rows, value, agreed, non_finite in rows
    )


def _flag(condition: exp.Expr) -> exp.Case:
    """0 or 1: not every engine has booleans in a result."""
    return exp.Case().when(condition, exp.Literal.number(1)).else_(exp.Literal.number(0))
