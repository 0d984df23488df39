"""The types of SQL that values are cast to: an id to its column's type, a metric to a type that subtracts exactly."""

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.identifiers import fixed_length, id_rule
from experiments.warehouse.render import DOUBLE, TEXT, cast

_PLAIN_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(?:\( *[0-9]+ *(?:, *-?[0-9]+ *)?\))?", re.ASCII)


def id_of_column(text: exp.Expr, id_column: Column, dialect: Dialect) -> exp.Expr:
    """``text`` (a canonical id) as a value of the id column's type, so that the column itself stays bare in the join.

    Raises DatasourceError (``id_type_unsupported``).
    """
    id_rule(id_column)
    match id_column.family:
        case Family.DOUBLE:
            # As a double in a column of single precision too: rounded to 32 bits, two ids could become one.
            return cast(text, DOUBLE)
        case Family.DECIMAL if dialect is Dialect.POSTGRESQL:
            # Without digits of its own: numeric(4, -2) would round 142 to 100.
            return cast(text, decimal_type(0, 0, dialect))
        case Family.INTEGER | Family.DECIMAL | Family.UUID:
            return cast(text, native_type(id_column, dialect))
        case _:
            return _text_id(text, id_column, dialect)


def native_type(column: Column, dialect: Dialect) -> exp.DataType:
    """Raises DatasourceError for a type that is no plain name with numbers in parentheses, or that nobody knows."""
    try:
        if _PLAIN_TYPE.fullmatch(column.native):
            kind = exp.DataType.build(column.native, dialect=dialect.value)
            if not kind.is_type(exp.DataType.Type.USERDEFINED, exp.DataType.Type.UNKNOWN):
                return kind
    except SqlglotError:
        pass  # refused below, as the others are
    raise DatasourceError(
        f"column {column.name!r} has a type that cannot be named in a query: {column.native}",
        field="id_column",
        code="id_type_unsupported",
    )


def decimal_type(precision: int, scale: int, dialect: Dialect) -> exp.DataType:
    """DECIMAL of at most 38 digits; BigQuery's BIGNUMERIC, PostgreSQL's numeric (both hold any of these) otherwise."""
    match dialect:
        case Dialect.POSTGRESQL:
            return exp.DataType.build("numeric", dialect="postgres")
        case Dialect.BIGQUERY:
            return exp.DataType.build("bignumeric", dialect="bigquery")
        case _:
            return exp.DataType.build(f"decimal({precision}, {scale})")


def _text_id(text: exp.Expr, id_column: Column, dialect: Dialect) -> exp.Expr:
    length = fixed_length(id_column)
    if length is None:
        return cast(text, TEXT)  # without a length: a cast to VARCHAR(3) would make abcd match abc
    match dialect:
        case Dialect.POSTGRESQL:
            return cast(text, exp.DataType.build("bpchar", dialect="postgres"))
        case Dialect.SPARK | Dialect.DATABRICKS:
            # Such columns are read padded with blanks, and a cast to CHAR(n) is one to STRING.
            return exp.Pad(
                this=cast(text, TEXT),
                expression=exp.Literal.number(length),
                fill_pattern=exp.Literal.string(" "),
                is_left=False,
            )
        case Dialect.TRINO:
            return cast(text, native_type(id_column, dialect))
        case _:
            return cast(text, TEXT)
