"""The statements in ``sql/``, read once. ``store`` and ``operations`` are their only callers."""

from functools import cache
from pathlib import Path
from typing import LiteralString

_FOLDER = Path(__file__).with_name("sql")


@cache
def statement(name: str) -> LiteralString:
    """The text of ``sql/NAME.sql`` without its opening comment."""
    lines = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("--"):
        del lines[0]
    return "\n".join(lines)
