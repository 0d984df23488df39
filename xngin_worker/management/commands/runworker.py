"""``manage.py runworker``: the worker's process."""

import sys
from typing import Any, override

from django.conf import settings as django_settings

from experiments.scheduler.functions import job_functions
from xngin_worker import environment, worker_options
from xngin_worker.process.composition import compose
from xngin_worker.process.leaving import leave
from xngin_worker.process.signals import pipe
from xngin_worker.process.supervisor import ExitCode
from xngin_worker.worker_options import WorkerCommand


class Command(WorkerCommand):
    # A worker that starts while the database is away waits for it; checks that need it would end the process instead.
    requires_system_checks = ()

    _code: ExitCode | None = None

    @override
    def run_from_argv(self, argv: list[str]) -> None:
        try:
            super().run_from_argv(argv)
        finally:
            if self._code is not None:
                leave(self._code)

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        settings = worker_options.resolve(options, environment.current())
        pipe.install()
        pgbouncer = bool(django_settings.TASKQUEUE["PGBOUNCER"])
        self._code = compose(settings, pgbouncer=pgbouncer, pipe=pipe, jobs=job_functions()).run()
        if self._code is not ExitCode.DONE:
            sys.exit(int(self._code))
