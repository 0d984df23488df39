"""`manage.py demo`: the task queue at work on this machine."""

from __future__ import annotations

import sys
from typing import Any, override

from django.core.management.base import BaseCommand, CommandError, CommandParser

from xngin_worker import environment
from xngin_worker.demo import administrator


class Command(BaseCommand):
    help = (
        "Show the task queue at work: a database (the embedded one, or that of DATABASE_URL) with its tables, the "
        "site with its admin, a worker, and a receiver of webhooks, all on this machine. Goes on until Ctrl-C."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--once",
            action="store_true",
            help="check each step, print a summary and end: with 0, or with 1 after naming the step that failed",
        )
        parser.add_argument(
            "--admin-name",
            metavar="NAME",
            help="name of the demo's administrator, who is kept afterwards (default: a random one, who is not)",
        )
        parser.add_argument("--admin-password", metavar="PASSWORD", help="the password (default: a random one)")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if environment.current().production:
            raise CommandError("The demo makes an administrator and tasks; it is not for production.", returncode=2)
        # Not before: it needs the apps, and Django imports commands to list them as well.
        from xngin_worker.demo.play import Play

        account = administrator.chosen(options["admin_name"], options["admin_password"])
        if code := Play(once=options["once"], administrator=account).run():
            sys.exit(code)
