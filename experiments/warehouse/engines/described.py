"""A column from the text of its type, as engines with Hive's or Trino's catalogs describe it: ``decimal(10,2)``."""

from __future__ import annotations

import re

from experiments.warehouse.columns import Column, Family
from experiments.warehouse.families import family_of

_DIGITS = re.compile(r"\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)", re.ASCII)


def column_of(name: str, native: str) -> Column:
    family = family_of(native)
    digits = _DIGITS.search(native) if family is Family.DECIMAL else None
    return Column(
        name=name,
        family=family,
        native=native,
        precision=int(digits[1]) if digits else None,
        scale=int(digits[2] or 0) if digits else None,
    )
