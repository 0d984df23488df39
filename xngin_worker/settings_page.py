"""The tables of the page about settings, from the same declarations that the program reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xngin_worker.variables import VARIABLES
from xngin_worker.worker_settings import WORKER_SETTINGS


def render_worker_settings() -> str:
    """A Markdown table of the worker's settings: option, variable, default, what is accepted, meaning."""
    return _table(
        ("Option", "Variable", "Default", "Accepted", "Meaning"),
        (
            (f"`{line.option}`", f"`{line.variable}`", line.default_text, line.accepted, line.meaning)
            for line in WORKER_SETTINGS
        ),
    )


def render_variables() -> str:
    """A Markdown table of all other environment variables: name, default, meaning."""
    return _table(
        ("Variable", "Default", "Meaning"),
        ((f"`{line.name}`", line.default, line.meaning) for line in VARIABLES),
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)
