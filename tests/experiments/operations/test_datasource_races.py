"""A config that is set while secrets are rotated: neither overwrites the other's work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from psycopg.types.json import Jsonb
from pytest_django.fixtures import Settings

from experiments.models import Datasource
from experiments.operations.datasources import config_of, set_config
from experiments.secrets import SecretBox
from experiments.warehouse.config import PostgreSQLConfig, secret_leaves
from tests.support.experiments import make_datasource
from tests.support.sessions import DEADLINE_SECONDS, sessions, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "old-" * 9, "new-" * 9
CONFIG: dict[str, Any] = {"type": "postgresql", "host": "db.example.com", "database": "d", "user": "u"}


def test_a_kept_secret_is_the_one_that_was_rotated_meanwhile(settings: Settings) -> None:
    settings.EXPERIMENTS = {**settings.EXPERIMENTS, "SECRET_KEYS": (NEW, OLD)}
    whole = {**CONFIG, "password": "hidden"}
    row = make_datasource(config=SecretBox([OLD]).encrypt(whole, secret_leaves(whole)))

    def change() -> None:
        try:
            set_config(row.pk, {**CONFIG, "user": "other"})
        finally:
            connections.close_all()

    with sessions() as connect, ThreadPoolExecutor(1) as pool:
        rotating, watcher = connect(), connect()
        rotating.execute("BEGIN")
        renewed = SecretBox([NEW]).encrypt(whole, secret_leaves(whole))
        rotating.execute("UPDATE datasources SET config = %s WHERE id = %s", [Jsonb(renewed), row.pk])
        changing = pool.submit(change)
        wait_until_blocked(watcher)
        rotating.execute("COMMIT")
        changing.result(DEADLINE_SECONDS)

    settings.EXPERIMENTS = {**settings.EXPERIMENTS, "SECRET_KEYS": (NEW,)}
    config = config_of(Datasource.objects.get().pk)
    assert isinstance(config, PostgreSQLConfig)
    assert config.user == "other"
    assert config.password is not None
    assert config.password.get_secret_value() == "hidden"
