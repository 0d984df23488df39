"""The scheduler's statements in ``experiments/sql``, read once. ``due`` and ``ledger`` are their only callers."""

from functools import cache
from pathlib import Path
from typing import LiteralString

_FOLDER = Path(__file__).parents[1] / "sql"


@cache
def statement(name: str) -> LiteralString:
    """The text of ``sql/NAME.sql`` without its opening comment."""
    lines = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("--"):
        del lines[0]
    return "\n".join(lines)
