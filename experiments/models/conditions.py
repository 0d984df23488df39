"""Conditions of CHECK constraints that Django's lookups cannot say. NULL satisfies each of them."""

from django.db.models import BooleanField, Func


class ColumnCondition(Func):
    """Base: a condition on one column, which its template may name several times."""

    output_field = BooleanField()


class Finite(ColumnCondition):
    """A double that is neither NaN nor infinite."""

    # PostgreSQL sorts NaN above infinity.
    template = "(%(expressions)s > '-Infinity' AND %(expressions)s < 'Infinity')"


class FiniteVector(ColumnCondition):
    """A list of at least one double, none of them NULL, NaN or infinite."""

    template = (
        "(%(expressions)s IS NULL OR (array_ndims(%(expressions)s) = 1"
        " AND '-Infinity' < ALL(%(expressions)s) AND 'Infinity' > ALL(%(expressions)s)) IS TRUE)"
    )


class FiniteSquare(ColumnCondition):
    """A square matrix of doubles, none of them NULL, NaN or infinite."""

    template = (
        "(%(expressions)s IS NULL OR (array_ndims(%(expressions)s) = 2"
        " AND array_length(%(expressions)s, 1) = array_length(%(expressions)s, 2)"
        " AND '-Infinity' < ALL(%(expressions)s) AND 'Infinity' > ALL(%(expressions)s)) IS TRUE)"
    )


class IdLength(ColumnCondition):
    """A text of 1 to 255 characters."""

    template = "(char_length(%(expressions)s) BETWEEN 1 AND 255)"


class JsonList(ColumnCondition):
    """A JSON list of at least one entry."""

    template = (
        "(CASE WHEN jsonb_typeof(%(expressions)s) = 'array'"
        " THEN jsonb_array_length(%(expressions)s) > 0 ELSE FALSE END)"
    )


class JsonPair(ColumnCondition):
    """A JSON list of two entries."""

    template = (
        "(CASE WHEN jsonb_typeof(%(expressions)s) = 'array'"
        " THEN jsonb_array_length(%(expressions)s) = 2 ELSE FALSE END)"
    )
