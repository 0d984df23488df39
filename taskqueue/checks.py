"""System checks of the queue: what Django can find wrong before anything runs."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections, router

_KEYS = {"PGBOUNCER", "WEBHOOK_ALLOWED_NETWORKS", "CA_BUNDLE", "MODE"}
_MODES = ("workers", "immediate")
_OLDEST_POSTGRESQL = 150_000


@register("taskqueue")
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    given = getattr(settings, "TASKQUEUE", {})
    if not isinstance(given, dict):
        return [
            Error(
                "The setting TASKQUEUE is not a dictionary.",
                hint=f"Give it any of the keys {', '.join(sorted(_KEYS))}.",
                id="taskqueue.E001",
            )
        ]
    problems: list[CheckMessage] = []
    if given.get("MODE", _MODES[0]) not in _MODES:
        problems.append(
            Error(
                f"TASKQUEUE['MODE'] is {given['MODE']!r}.",
                hint=f"It takes {' or '.join(map(repr, _MODES))}.",
                id="taskqueue.E001",
            )
        )
    problems += [
        Error(
            f"The setting TASKQUEUE has an unknown key {key!r}.",
            hint=f"The nearest known one is {_nearest(str(key))!r}.",
            id="taskqueue.E001",
        )
        for key in given
        if key not in _KEYS
    ]
    return problems


@register("taskqueue")
def check_engine(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    from taskqueue.models import Task

    alias = router.db_for_write(Task)
    if connections[alias].vendor == "postgresql":
        return []
    return [
        Error(
            f"The database {alias!r} of the task queue is not PostgreSQL.",
            hint="The queue rests on SKIP LOCKED, NOTIFY and triggers; point DATABASE_URL at PostgreSQL.",
            id="taskqueue.E002",
        )
    ]


@register(Tags.database)
def check_server(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **_: Any
) -> list[CheckMessage]:
    from taskqueue.models import Task

    alias = router.db_for_write(Task)
    connection: Any = connections[alias]
    if alias not in (databases or ()) or connection.vendor != "postgresql":
        return []
    version = connection.pg_version
    if version >= _OLDEST_POSTGRESQL:
        return []
    return [
        Error(
            f"The database {alias!r} runs PostgreSQL {version // 10_000}, which is too old.",
            hint="Use PostgreSQL 15 or newer.",
            id="taskqueue.E003",
        )
    ]


def _nearest(key: str) -> str:
    return (get_close_matches(key.upper(), sorted(_KEYS), n=1, cutoff=0.0) or [""])[0]
