"""The first steps of every query: the assignments sent, their rows in the customer's table, one line a participant."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from experiments.warehouse.casts import id_of_column
from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.identifiers import fixed_length
from experiments.warehouse.metrics import Reading
from experiments.warehouse.render import cast, column, count_rows, customer_table, named, step
from experiments.warehouse.unnest import sent_rows

# Alias of the customer's table.
TABLE = "w"
# The length of an id, see ``identity``.
LENGTH = "l"


@dataclass(frozen=True, kw_only=True)
class StepNames:
    """Names of the steps: a step named as the customer's table would hide it."""

    sent: str
    keyed: str
    found: str
    people: str
    judged: str
    anchored: str
    centred: str
    deviated: str


def step_names(table: Table) -> StepNames:
    prefix = "step"
    while table.path[-1].casefold().startswith(prefix):
        prefix += "_"
    return StepNames(**{name: f"{prefix}_{name}" for name in StepNames.__dataclass_fields__})


def identity(by: str, id_column: Column, dialect: Dialect) -> list[str]:
    """The columns of ``keyed`` that tell participants apart: ``by`` (``k``, or the text ``p``), alone in most engines.

    Redshift ignores blanks at the end when it compares texts, so that "a" and "a " would be one, and would be one row.
    """
    varying = id_column.family is Family.TEXT and fixed_length(id_column) is None
    return [by, LENGTH] if dialect is Dialect.REDSHIFT and varying else [by]


def keyed_and_found(
    *,
    dialect: Dialect,
    table: Table,
    id_column: Column,
    readings: Sequence[tuple[exp.Column, Reading]],
    keep: Sequence[str],
    names: StepNames,
) -> list[tuple[str, exp.Query]]:
    """``found`` has one line for each row of a participant: the columns ``keep`` of ``keyed`` (``k`` is the id in the
    column's type), whether a metric is there (``raw_i``) and its comparable value (``value_i``)."""
    text = column(names.sent, "p")
    keyed = exp.select(
        *(column(names.sent, name) for name in ("p", "a", "c")),
        named(id_of_column(text, id_column, dialect), "k"),
    ).from_(step(names.sent))
    same_id: exp.Expr = exp.EQ(this=column(TABLE, id_column.name), expression=column(names.keyed, "k"))
    if LENGTH in keep:
        keyed = keyed.select(named(exp.Length(this=text.copy()), LENGTH), copy=False)
        length = exp.Length(this=column(TABLE, id_column.name))
        same_id = exp.and_(same_id, exp.EQ(this=length, expression=column(names.keyed, LENGTH)))
    found = (
        exp.select(
            *(column(names.keyed, name) for name in keep),
            *(
                named(expression, name)
                for i, (raw, reading) in enumerate(readings)
                for expression, name in _of_row(i, raw, reading)
            ),
        )
        .from_(step(names.keyed))
        .join(
            customer_table(table, TABLE),
            # The column itself, in no cast nor function, equals the key: so an index or a partition is found.
            on=same_id,
            join_type="inner",
        )
    )
    return [(names.sent, sent_rows(dialect)), (names.keyed, keyed), (names.found, found)]


def people(
    *, readings: Sequence[tuple[exp.Column, Reading]], group: Sequence[str], show: Sequence[str], names: StepNames
) -> exp.Select:
    """One line a participant: how many rows, and by metric how many are there (``present_i``), how many of them finite
    (``finite_i``), the lowest and the highest value."""
    columns: list[exp.Expr] = [*(column(names.found, name) for name in show), named(count_rows(), "n_rows")]
    for i, (_, reading) in enumerate(readings):
        value = column(names.found, f"value_{i}")
        if reading.may_be_non_finite:
            columns.append(named(exp.Count(this=column(names.found, f"raw_{i}"), big_int=True), f"present_{i}"))
        columns += [
            named(exp.Count(this=value, big_int=True), f"finite_{i}"),
            named(exp.Min(this=value.copy()), f"low_{i}"),
            named(exp.Max(this=value.copy()), f"high_{i}"),
        ]
    return exp.select(*columns).from_(step(names.found)).group_by(*(column(names.found, name) for name in group))


def agree(source: str, i: int) -> exp.Expr:
    """Every row of the participant has the same finite value."""
    return exp.and_(
        exp.EQ(this=column(source, f"finite_{i}"), expression=column(source, "n_rows")),
        exp.EQ(this=column(source, f"low_{i}"), expression=column(source, f"high_{i}")),
    )


def all_null(source: str, i: int, reading: Reading) -> exp.Expr:
    return exp.EQ(this=_present(source, i, reading), expression=exp.Literal.number(0))


def all_non_finite(source: str, i: int, reading: Reading) -> exp.Expr:
    return exp.and_(
        exp.EQ(this=_present(source, i, reading), expression=column(source, "n_rows")),
        exp.EQ(this=column(source, f"finite_{i}"), expression=exp.Literal.number(0)),
    )


def too_large(source: str, i: int, reading: Reading) -> exp.Expr | None:
    if reading.largest is None:
        return None
    above = exp.GTE(this=column(source, f"high_{i}"), expression=reading.largest.copy())
    if reading.unsigned:
        return above
    below = exp.LTE(this=column(source, f"low_{i}"), expression=_negative(reading.largest))
    return exp.or_(above, below)


def _of_row(i: int, raw: exp.Column, reading: Reading) -> list[tuple[exp.Expr, str]]:
    columns: list[tuple[exp.Expr, str]] = [(reading.value, f"value_{i}")]
    if reading.may_be_non_finite:
        columns.insert(0, (raw.copy(), f"raw_{i}"))
    return columns


def _present(source: str, i: int, reading: Reading) -> exp.Column:
    return column(source, f"present_{i}" if reading.may_be_non_finite else f"finite_{i}")


def _negative(constant: exp.Expr) -> exp.Expr:
    assert isinstance(constant, exp.Cast)  # noqa: S101  (constants are made by ``render.number``)
    return cast(exp.Literal.string(f"-{constant.this.this}"), constant.to.copy())
