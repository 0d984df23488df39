"""Which texts can be the id of a participant in a column, and how they are written for the engine.

Two ids that are written differently never match the same row: ``42`` finds the number 42, while ``042``, `` 42`` and
``4.2e1`` find nothing. The only exception are UUIDs, whose capitals mean nothing (``IdRule.folds``).
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Family

_INTEGER = re.compile(r"-?[1-9][0-9]*|0", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# NUL cannot be in a text of PostgreSQL nor in most engines; lone surrogates are no Unicode text at all.
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_FIXED_LENGTH = re.compile(r"(?:n?char|character|bpchar(?=\())(?:\(([0-9]+)\))?", re.ASCII | re.IGNORECASE)

# More digits than any engine's number; longer texts are not even looked at.
_LONGEST_NUMBER = 400

_BITS = {
    "tinyint": 8, "byteint": 8, "byte": 8, "int1": 8,
    "smallint": 16, "int2": 16, "int16": 16, "short": 16, "smallserial": 16,
    "integer": 32, "int": 32, "int4": 32, "int32": 32, "serial": 32, "mediumint": 32,
    "bigint": 64, "int8": 64, "int64": 64, "long": 64, "bigserial": 64,
    "hugeint": 128, "int128": 128,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class IdRule:
    """How the ids of one column are written.

    ``canonical(text)`` is what is sent for ``text``, or None when no value of the column's type is written so ("not in
    warehouse"). ``folds``: several texts share one canonical form, so that two assignments may be one participant; then
    the caller compares canonical forms. Without it the canonical form is the text itself.
    """

    folds: bool
    canonical: Callable[[str], str | None]


def id_rule(column: Column) -> IdRule:
    """The rule of ``column``; raises DatasourceError (``id_type_unsupported``) for types that identify nobody."""
    match column.family:
        case Family.TEXT:
            fixed = fixed_length(column)
            return IdRule(folds=False, canonical=_text if fixed is None else _fixed_text(fixed))
        case Family.UUID:
            return IdRule(folds=True, canonical=_uuid)
        case Family.INTEGER:
            return IdRule(folds=False, canonical=_integer(*_integer_range(column)))
        case Family.DECIMAL:
            return IdRule(folds=False, canonical=_decimal(column.precision, column.scale))
        case Family.DOUBLE:
            return IdRule(folds=False, canonical=_double)
    raise DatasourceError(
        f"column {column.name!r} of type {column.native} cannot hold participants' ids: choose a column of a text,"
        " integer, decimal, floating-point or UUID type",
        field="id_column",
        code="id_type_unsupported",
    )


def fixed_length(column: Column) -> int | None:
    """n of a CHAR(n), whose values are padded with blanks, and 1 of a bare CHAR; None for every other type.

    PostgreSQL's bare ``bpchar`` has no length; compared with a text it is one.
    """
    if column.family is not Family.TEXT or (found := _FIXED_LENGTH.fullmatch(column.native.replace(" ", ""))) is None:
        return None
    return int(found[1]) if found[1] else 1


def _text(text: str) -> str | None:
    return None if _UNSENDABLE.search(text) else text


def _fixed_text(length: int) -> Callable[[str], str | None]:
    def canonical(text: str) -> str | None:
        # Engines ignore blanks at the end of a CHAR: the text without them is the one that means the row.
        return None if len(text) > length or text.endswith(" ") else _text(text)

    return canonical


def _uuid(text: str) -> str | None:
    return text.lower() if _UUID.fullmatch(text) else None


def _integer_range(column: Column) -> tuple[int, int]:
    if column.precision is not None and column.native.strip().lower().startswith(("number", "numeric", "decimal")):
        return 1 - 10**column.precision, 10**column.precision - 1
    name = column.native.strip().lower()
    if name in _BITS:
        bits = _BITS[name]
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if name.startswith("u") and name[1:] in _BITS:
        return 0, 2 ** _BITS[name[1:]] - 1
    raise DatasourceError(
        f"column {column.name!r} has an integer type whose range is not known: {column.native}",
        field="id_column",
        code="id_type_unsupported",
    )


def _integer(lowest: int, highest: int) -> Callable[[str], str | None]:
    longest = len(str(lowest)) if lowest else len(str(highest))

    def canonical(text: str) -> str | None:
        if len(text) > longest or not _INTEGER.fullmatch(text):
            return None
        return text if lowest <= int(text) <= highest else None

    return canonical


def _decimal(precision: int | None, scale: int | None) -> Callable[[str], str | None]:
    def canonical(text: str) -> str | None:
        if len(text) > _LONGEST_NUMBER or text == "-0" or not _DECIMAL.fullmatch(text):
            return None
        if precision is not None:
            whole, _, fraction = text.removeprefix("-").partition(".")
            digits = 0 if whole == "0" else len(whole)
            if digits > precision - (scale or 0) or len(fraction) > (scale or 0):
                return None
        return text

    return canonical


def _double(text: str) -> str | None:
    if len(text) > _LONGEST_NUMBER or text == "-0" or not _DECIMAL.fullmatch(text):
        return None
    value = float(text)
    # The shortest text that means this value: 9007199254740993 is none, its double ends in 2.
    return text if math.isfinite(value) and np.format_float_positional(value, trim="-") == text else None
