"""``manage.py runworker``: the worker's process."""

import sys
from typing import Any, override

from django.conf import settings as django_settings

from xngin_worker import environment, worker_options
from xngin_worker.process.composition import compose
from xngin_worker.process.signals import pipe
from xngin_worker.process.supervisor import ExitCode
from xngin_worker.worker_options import WorkerCommand


class Command(WorkerCommand):
    # A worker that starts while the database is away waits for it; checks that need it would end the process instead.
    requires_system_checks = ()

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        settings = worker_options.resolve(options, environment.current())
        pipe.install()
        code = compose(settings, pgbouncer=bool(django_settings.TASKQUEUE["PGBOUNCER"]), pipe=pipe).run()
        if code is not ExitCode.DONE:
            sys.exit(int(code))
