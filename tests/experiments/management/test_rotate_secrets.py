"""The command that brings secrets under the newest key: what it counts, and when it fails."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from experiments.models import Datasource
from tests.support.experiments import make_datasource

pytestmark = pytest.mark.django_db

CONFIG = {"type": "postgresql", "host": "h", "database": "d", "user": "u", "password": "hidden"}


def rotate(*arguments: str) -> str:
    out = StringIO()
    call_command("rotate_secrets", *arguments, stdout=out)
    return out.getvalue().strip()


def test_it_counts_what_it_encrypted(settings: Settings) -> None:
    make_datasource(config=CONFIG)
    make_datasource()
    assert rotate("--dry-run") == "Would be encrypted with the newest key: 1. Needed nothing: 1. Failed: 0."
    assert rotate() == "Encrypted with the newest key: 1. Needed nothing: 1. Failed: 0."
    assert rotate() == "Encrypted with the newest key: 0. Needed nothing: 2. Failed: 0."
    settings.EXPERIMENTS = {
        **settings.EXPERIMENTS,
        "SECRET_KEYS": ("another-" * 5, *settings.EXPERIMENTS["SECRET_KEYS"]),
    }
    assert rotate() == "Encrypted with the newest key: 1. Needed nothing: 1. Failed: 0."


def test_it_fails_after_all_rows_when_one_keeps_an_old_secret(settings: Settings) -> None:
    make_datasource(pk="ds_1", config={**CONFIG, "password": {"encrypted": "nonsense"}})
    make_datasource(pk="ds_2", config=CONFIG)
    errors = StringIO()
    with pytest.raises(CommandError, match="does not open: 1"):
        call_command("rotate_secrets", stdout=StringIO(), stderr=errors)
    assert "datasource ds_1" in errors.getvalue()
    assert "XNGIN_SECRET_KEYS" in errors.getvalue()
    assert "hidden" not in str(Datasource.objects.get(pk="ds_2").config)
