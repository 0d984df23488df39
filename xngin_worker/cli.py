"""The ways in from the command line: `manage.py`, and `xngin-worker` for its word `runworker`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from django.core.management import execute_from_command_line

from xngin_worker import configuration, environment, worker_options


def main() -> None:
    """The console script `xngin-worker`: the worker with the arguments given, from any folder."""
    manage(["xngin-worker", "runworker", *sys.argv[1:]])


def manage(arguments: Sequence[str]) -> None:
    """Run one management command; a configuration that cannot be used is reported as a whole, with exit 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    try:
        environment.current()
    except configuration.ConfigurationError as error:
        of_options = worker_options.problems_in(arguments[2:]) if arguments[1:2] == ["runworker"] else ()
        configuration.report_and_exit(configuration.ConfigurationError([*error.problems, *of_options]))
    execute_from_command_line(list(arguments))
