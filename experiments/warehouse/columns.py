"""Tables and columns as a warehouse describes them: names exactly as they are there, types sorted into families."""

from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    """What can be done with the values of a column."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    TEXT = "text"
    UUID = "uuid"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Column:
    """``native`` is the engine's own name of the type, fit for a CAST; a range of integers is known by it,
    so BigQuery's is INT64, not the INTEGER of its older interfaces.

    ``precision`` and ``scale`` are for decimals, and for integers that are decimals of scale 0. They are None where the
    type has no bounds (PostgreSQL's plain ``numeric``), not where the engine has bounds by default: 38 and 9 for
    BigQuery's NUMERIC, 76 and 38 for its BIGNUMERIC.
    """

    name: str
    family: Family
    native: str
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """``path`` is catalog, schema and name as far as they are given, outermost first."""

    path: tuple[str, ...]
    columns: tuple[Column, ...]
