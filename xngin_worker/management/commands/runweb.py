"""`manage.py runweb`: serves the site with gunicorn."""

from __future__ import annotations

import os
import sys
from typing import override

from django.core.management.base import BaseCommand

from xngin_worker.environment import PROJECT_FOLDER


class Command(BaseCommand):
    help = (
        "Serve the site on the port named by PORT (default 8000) with as many processes as WEB_CONCURRENCY says "
        "(default 2)."
    )

    @override
    def handle(self, *args: object, **options: object) -> None:
        # This process becomes gunicorn, so that a signal reaches it and not a parent that would have to pass it on.
        os.chdir(PROJECT_FOLDER)
        command = [sys.executable, "-m", "gunicorn", "--config", "python:xngin_worker.web_server"]
        os.execv(sys.executable, command)  # noqa: S606  # no shell is wanted
