"""The two ways in from the command line: `manage.py WORD ...`, and `xngin-worker ...` for `manage.py runworker ...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from django.core.management import execute_from_command_line

from xngin_worker import configuration, environment


def main() -> None:
    """The console script `xngin-worker`: the worker with the arguments given, from any folder."""
    manage(["xngin-worker", "runworker", *sys.argv[1:]])


def manage(arguments: Sequence[str]) -> None:
    """Run one management command; a configuration that cannot be used is reported as a whole, and ends with 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    try:
        environment.current()
    except configuration.ConfigurationError as error:
        configuration.report_and_exit(error)
    execute_from_command_line(list(arguments))
