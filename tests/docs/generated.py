"""The parts of the pages that are made from declarations, between ``<!-- generated: NAME -->`` and ``<!-- end -->``.

``.venv/bin/python -m tests.docs.generated`` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import django

from experiments import events as experiment_events
from taskqueue import events, lifecycle
from taskqueue.reconciliation import rules
from tests.docs import datasource_fields
from tests.docs.pages import PAGES
from xngin_worker import settings_page

COMMAND = ".venv/bin/python -m tests.docs.generated"
PARTS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "worker_settings": settings_page.render_worker_settings,
        "variables": settings_page.render_variables,
        "lifecycle_diagram": lambda: f"```mermaid\n{lifecycle.diagram()}```\n",
        "lifecycle_table": lifecycle.table,
        "events": events.table,
        "datasource_fields": datasource_fields.table,
        "queue_rules": lambda: _rules("tasks.", "webhooks."),
        "experiment_rules": lambda: _rules("experiments."),
        "experiment_events": lambda: events.table(experiment_events.CATALOGUE),
    }
)


def _rules(*prefixes: str) -> str:
    return "\n".join(rules.table(prefix) for prefix in prefixes)


_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def parts_of(page: Path) -> list[str]:
    return [found["name"] for found in _PART.finditer(page.read_text())]


def rewritten(page: Path) -> str:
    """The page as it should be."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found['name']]()}\n{found[4]}", page.read_text())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    # The apps declare their rules when they start.
    django.setup()
    for changed in PAGES:
        changed.write_text(rewritten(changed))
