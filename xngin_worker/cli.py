"""The ways in from the command line: `manage.py`, and `xngin-worker` for its word `runworker`.

Imports nothing but the standard library before a worker can take signals.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from xngin_worker.process.signals import pipe


def main() -> None:
    """The console script `xngin-worker`: the worker with the arguments given, from any folder."""
    manage(["xngin-worker", "runworker", *sys.argv[1:]])


def manage(arguments: Sequence[str]) -> None:
    """Run one management command; a configuration that cannot be used is reported as a whole, with exit 2."""
    worker = list(arguments[1:2]) == ["runworker"]
    if worker:
        # Loading Django and its apps takes a second. A signal in that time is kept, and ends it before it works.
        pipe.install()
        import xngin_worker.process.starter  # noqa: F401 - looks at the parent process while it is there
    from django.core.management import execute_from_command_line

    from taskqueue.errors import HandlerConfigurationError
    from xngin_worker import configuration, environment, worker_options

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    try:
        environment.current()
    except configuration.ConfigurationError as error:
        of_options = worker_options.problems_in(arguments[2:]) if worker else ()
        configuration.report_and_exit(configuration.ConfigurationError([*error.problems, *of_options]))
    try:
        execute_from_command_line(list(arguments))
    except HandlerConfigurationError as error:
        configuration.report_and_exit(configuration.ConfigurationError([f"{error}."]))
