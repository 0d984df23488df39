"""Conditions of CHECK constraints that Django's lookups cannot say. NULL satisfies each of them."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func
from django.db.models.sql.compiler import SQLCompiler


class ColumnCondition(Func):
    """Base: a condition on one column, which its template may name several times.

    The template casts each of them, since forms ask the database the same question with a value in place of the column.
    """

    output_field = BooleanField()

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **context: Any) -> Any:
        sql, parameters = super().as_sql(compiler, connection, *args, **context)
        return sql, tuple(parameters) * str(self.template).count("%(expressions)s")


class Finite(ColumnCondition):
    """A double that is neither NaN nor infinite."""

    # PostgreSQL sorts NaN above infinity.
    template = "(%(expressions)s::float8 > '-Infinity' AND %(expressions)s::float8 < 'Infinity')"


class FiniteVector(ColumnCondition):
    """A list of at least one double, none of them NULL, NaN or infinite."""

    template = (
        "(%(expressions)s::float8[] IS NULL OR (array_ndims(%(expressions)s::float8[]) = 1"
        " AND '-Infinity' < ALL(%(expressions)s::float8[]) AND 'Infinity' > ALL(%(expressions)s::float8[])) IS TRUE)"
    )


class FiniteSquare(ColumnCondition):
    """A square matrix of doubles, none of them NULL, NaN or infinite."""

    template = (
        "(%(expressions)s::float8[] IS NULL OR (array_ndims(%(expressions)s::float8[]) = 2"
        " AND array_length(%(expressions)s::float8[], 1) = array_length(%(expressions)s::float8[], 2)"
        " AND '-Infinity' < ALL(%(expressions)s::float8[]) AND 'Infinity' > ALL(%(expressions)s::float8[])) IS TRUE)"
    )


class IdLength(ColumnCondition):
    """A text of 1 to 255 characters."""

    template = "(char_length(%(expressions)s::text) BETWEEN 1 AND 255)"


class JsonList(ColumnCondition):
    """A JSON list of at least one entry."""

    template = (
        "(CASE WHEN jsonb_typeof(%(expressions)s::jsonb) = 'array'"
        " THEN jsonb_array_length(%(expressions)s::jsonb) > 0 ELSE FALSE END)"
    )


class JsonPair(ColumnCondition):
    """A JSON list of two entries."""

    template = (
        "(CASE WHEN jsonb_typeof(%(expressions)s::jsonb) = 'array'"
        " THEN jsonb_array_length(%(expressions)s::jsonb) = 2 ELSE FALSE END)"
    )
