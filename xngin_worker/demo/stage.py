"""What the demo plays on: the database and its tables, the site and one worker, each a real part of this project."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
import requests
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.urls import reverse

from xngin_worker.demo.children import Children
from xngin_worker.demo.kinds import FLAKY
from xngin_worker.demo.steps import StepFailed
from xngin_worker.demo.visitor import Visitor
from xngin_worker.environment import PROJECT_FOLDER

SETTINGS = "xngin_worker.demo.settings"
_LOOK_AGAIN_SECONDS = 0.05

# Two demos may start at once on one empty database; Django's migrations are not made for that.
_MIGRATION_LOCK = 7_094_211_301

_OTHER_WORKERS: LiteralString = """
SELECT id FROM workers
WHERE stopped_at IS NULL AND beat_at > now() - interval '12 seconds' AND NOT draining
    AND 'webhook.outbound' = ANY(task_types) AND NOT %s = ANY(task_types)
ORDER BY id LIMIT 1
"""
_OUR_WORKER: LiteralString = """
SELECT listen_state FROM workers WHERE pid = %s AND host = %s AND stopped_at IS NULL ORDER BY started_at DESC LIMIT 1
"""


@dataclass(frozen=True, kw_only=True)
class Site:
    url: str

    def address(self, path: str) -> str:
        return self.url + path


def connect() -> psycopg.Connection:
    """A connection as another program would have it: the driver alone, nothing of Django's."""
    # Django's own connection has started the server where it is the embedded one, and knows its address since.
    connection.ensure_connection()
    given: dict[str, Any] = connection.settings_dict
    address = {
        "dbname": given["NAME"],
        "user": given["USER"],
        "password": given["PASSWORD"],
        "host": given["HOST"],
        "port": str(given["PORT"]),
    }
    return psycopg.connect(
        **{name: value for name, value in address.items() if value},
        **given["OPTIONS"],
        autocommit=True,
        prepare_threshold=None,
        application_name="xngin demo",
    )


def is_embedded() -> bool:
    return "EMBEDDED_DATA_FOLDER" in connection.settings_dict


def describe_database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        version = str(cursor.fetchone()[0]).split()[0]
    if is_embedded():
        return f"PostgreSQL {version}, embedded; its data is in .data/"
    return f"PostgreSQL {version}, named by DATABASE_URL"


def migrate() -> str:
    """Bring the tables up to date, one demo after the other."""
    with connect() as guard, guard.transaction():
        guard.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK])
        executor = MigrationExecutor(connection)
        missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        if missing:
            call_command("migrate", interactive=False, verbosity=0)
    return f"{missing} applied" if missing else "all there"


def start_site(children: Children) -> Site:
    """The site on a free port of loopback, served once this returns."""
    # Gunicorn gets a socket that listens already: no port that another program could take in between.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        command = [
            *[sys.executable, "-m", "gunicorn", "--config", "python:xngin_worker.web_server"],
            *["--bind", f"fd://{listening.fileno()}", "--env", f"DJANGO_SETTINGS_MODULE={SETTINGS}"],
            *["--workers", "1", "--worker-class", "gthread", "--threads", "8", "--graceful-timeout", "2"],
        ]
        children.start("site", command, descriptors=[listening.fileno()])
    site = Site(url=url)
    wait_until(lambda: _answers(site), children)
    return site


def check_site(site: Site) -> None:
    """The first page of the admin is there, and has its style."""
    with Visitor(site.url) as visitor:
        visitor.check_style(visitor.page(reverse("admin:login")))


def start_worker(children: Children, watching: psycopg.Connection) -> str:
    """One worker that takes all of the demo's tasks; it serves once this returns what is to be said of it."""
    if other := watching.execute(_OTHER_WORKERS, [FLAKY]).fetchone():
        raise StepFailed(
            f"another worker, {other[0]}, serves this database. It would take webhooks of the demo, and may not "
            "send them to this machine. Stop it, or give the demo another database in DATABASE_URL"
        )
    # All options that matter here are given, so that no variable of the worker's decides.
    command = [
        *[sys.executable, str(PROJECT_FOLDER / "manage.py"), "runworker", "--settings", SETTINGS],
        *["--queues", "all", "--max-tasks", "0", "--exit-when-idle", "no", "--health-port", "off"],
        *["--poll-interval", "5s", "--drain-timeout", "3s", "--only", "both", "--max-jobs", "0"],
        # Time runs fast here: what takes hours elsewhere.
        *["--snapshot-interval", "8s", "--pull-interval", "8s"],
    ]
    child = children.start("worker", command)

    def state() -> str | None:
        row = watching.execute(_OUR_WORKER, [child.process.pid, socket.gethostname()]).fetchone()
        return None if row is None or row[0] == "connecting" else str(row[0])

    wait_until(lambda: state() is not None, children)
    polls = "polls, behind a pooler" if django_settings.TASKQUEUE["PGBOUNCER"] else state()
    return f"process {child.process.pid}, {polls}"


def wait_until(reached: Callable[[], bool], children: Children) -> None:
    """Look again and again, while all processes live; the step's deadline ends it otherwise."""
    while not reached():
        children.pause(_LOOK_AGAIN_SECONDS)


def _answers(site: Site) -> bool:
    try:
        with Visitor(site.url) as visitor:
            return visitor.page("/health") == "ok\n"
    except requests.ConnectionError:
        # The socket is there from the start, so this is rare: a process that is just ending.
        return False
