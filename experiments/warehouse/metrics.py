"""How the values of one metric column are read: what is compared, what is subtracted, and in which type."""

from dataclasses import dataclass

from sqlglot import exp

from experiments.errors import DatasourceError
from experiments.warehouse.casts import decimal_type, native_type
from experiments.warehouse.columns import Column, Family
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.finite import TOO_LARGE, finite_double, finite_numeric
from experiments.warehouse.render import DOUBLE, cast, number

# Digits of a value so that the difference of two values (one digit more) and a centre computed from it stay within
# the 38 digits that decimals have in most engines.
_DIGITS = 36
# A column DECIMAL(38, 31) or finer leaves no room for whole digits: it is read as double.
_FINEST_SCALE = 30

_NARROW = ("tinyint", "byte", "int1", "smallint", "short", "int2", "integer", "int", "int4", "utinyint", "usmallint")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """``value`` is the column as it is compared among a participant's rows (NULL where not finite). ``exact`` is the
    type in which deviations are subtracted, None for doubles; ``scale`` its digits after the point, None where their
    number is not fixed. ``largest``: values beyond plus or minus it cannot be summed; None where none is so large.
    ``narrow``: integers of 32 bits at most, whose average a double holds.
    """

    value: exp.Expr
    may_be_non_finite: bool
    exact: exp.DataType | None
    scale: int | None
    largest: exp.Expr | None
    unsigned: bool = False
    narrow: bool = False


def reading(metric: Column, source: exp.Column, dialect: Dialect) -> Reading:
    """Raises DatasourceError (``metric_type_unsupported``) for a column that holds no numbers."""
    match metric.family:
        case Family.BOOLEAN:
            value = exp.Case().when(source, exp.Literal.number(1))
            value = value.when(exp.not_(source.copy()), exp.Literal.number(0))
            return _narrow(value)
        case Family.INTEGER:
            return _integer(metric, source, dialect)
        case Family.DECIMAL:
            return _decimal(metric, source, dialect)
        case Family.DOUBLE:
            return _double(source)
    raise _no_metric(metric)


def refuse_unless_metric(column: Column) -> None:
    """Raises DatasourceError (``metric_type_unsupported``) for a column that holds no numbers."""
    if column.family not in (Family.BOOLEAN, Family.INTEGER, Family.DECIMAL, Family.DOUBLE):
        raise _no_metric(column)


def _no_metric(metric: Column) -> DatasourceError:
    return DatasourceError(
        f"column {metric.name!r} of type {metric.native} is no metric: choose a boolean, integer, decimal or"
        " floating-point column",
        field="metric",
        code="metric_type_unsupported",
    )


def _plain(value: exp.Expr, exact: exp.DataType, *, scale: int) -> Reading:
    return Reading(value=value, may_be_non_finite=False, exact=exact, scale=scale, largest=None)


def _narrow(value: exp.Expr) -> Reading:
    bigint = exp.DataType.build("bigint")
    return Reading(value=value, may_be_non_finite=False, exact=bigint, scale=0, largest=None, narrow=True)


def _integer(metric: Column, source: exp.Column, dialect: Dialect) -> Reading:
    exact = decimal_type(_DIGITS, 0, dialect)
    native = metric.native.strip().lower()
    # INTEGER is only another name of the widest type in BigQuery and Snowflake.
    if native in _NARROW and dialect not in (Dialect.BIGQUERY, Dialect.SNOWFLAKE):
        return _narrow(source)
    wide = native in ("hugeint", "uhugeint", "int128", "uint128") or (metric.precision or 0) > _DIGITS
    if not wide or dialect in (Dialect.POSTGRESQL, Dialect.BIGQUERY):
        return _plain(source, exact, scale=0)
    return Reading(
        value=source,
        may_be_non_finite=False,
        exact=exact,
        scale=0,
        largest=number(f"1{'0' * _DIGITS}", native_type(metric, dialect)),
        unsigned=native.startswith("u"),
    )


def _decimal(metric: Column, source: exp.Column, dialect: Dialect) -> Reading:
    if dialect is Dialect.POSTGRESQL:
        numeric = decimal_type(_DIGITS, 0, dialect)
        return Reading(
            value=exp.Case().when(finite_numeric(source), source.copy()),
            may_be_non_finite=True,
            exact=numeric,
            scale=metric.scale if metric.precision is not None else None,
            largest=number(TOO_LARGE, numeric),
        )
    if dialect is Dialect.BIGQUERY:
        exact = decimal_type(_DIGITS, 0, dialect)
        widest = number(f"1{'0' * _DIGITS}", exact) if metric.native.strip().upper().startswith("BIG") else None
        return Reading(value=source, may_be_non_finite=False, exact=exact, scale=None, largest=widest)
    precision, scale = metric.precision, metric.scale
    if precision is None or scale is None or (precision > _DIGITS and scale > _FINEST_SCALE):
        return _double(source)
    exact = decimal_type(_DIGITS, scale, dialect)
    if precision <= _DIGITS:
        return _plain(source, exact, scale=scale)
    return Reading(
        value=source,
        may_be_non_finite=False,
        exact=exact,
        scale=scale,
        largest=number(f"1{'0' * (_DIGITS - scale)}", decimal_type(precision, scale, dialect)),
    )


def _double(source: exp.Column) -> Reading:
    value = cast(source, DOUBLE)
    return Reading(
        value=exp.Case().when(finite_double(value), value.copy()),
        may_be_non_finite=True,
        exact=None,
        scale=None,
        largest=number(TOO_LARGE, DOUBLE),
    )
