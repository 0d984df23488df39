"""System checks of the queue: each fault has its stable id and says what to do."""

import pytest
from django.db import connection, connections
from django.test import override_settings

from taskqueue import checks


def test_known_settings_pass() -> None:
    assert checks.check_settings(None) == []
    assert checks.check_engine(None) == []


@override_settings(TASKQUEUE={"PGBOUNSER": True})
def test_unknown_key_is_named_with_the_nearest_known_one() -> None:
    (error,) = checks.check_settings(None)
    assert error.id == "taskqueue.E001"
    assert "'PGBOUNSER'" in error.msg
    assert error.hint is not None and "'PGBOUNCER'" in error.hint


@override_settings(TASKQUEUE=["PGBOUNCER"])
def test_a_setting_that_is_no_dictionary_is_refused() -> None:
    assert [error.id for error in checks.check_settings(None)] == ["taskqueue.E001"]


def test_another_database_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "vendor", "sqlite", raising=False)
    assert [error.id for error in checks.check_engine(None)] == ["taskqueue.E002"]


@pytest.mark.django_db
def test_an_old_server_is_refused_and_the_present_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_server(None, ["default"]) == []
    monkeypatch.setitem(connections["default"].__dict__, "pg_version", 140_011)
    (error,) = checks.check_server(None, ["default"])
    assert error.id == "taskqueue.E003"
    assert "PostgreSQL 14" in error.msg
