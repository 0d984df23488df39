"""Django's settings in both modes, and the site they make."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from xngin_worker.environment import DATA_FOLDER, PROJECT_FOLDER

PRODUCTION = {
    "XNGIN_ENVIRONMENT": "production",
    "XNGIN_SECRET_KEYS": "0123456789abcdef0123456789abcdef,another-key-that-was-in-use-before",
    "XNGIN_ALLOWED_HOSTS": "tasks.example.com",
    "DATABASE_URL": "postgresql://worker:hidden@127.0.0.1:1/xngin?sslmode=disable",
}


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = ("XNGIN_", "DATABASE_URL")
    clean = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT_FOLDER,
        env={**clean, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def settings(names: str, **variables: str) -> Any:
    program = f"from django.conf import settings as s; import json; print(json.dumps([{names}], default=str))"
    ended = run("-c", program, DJANGO_SETTINGS_MODULE="xngin_worker.settings", **variables)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_without_an_address_the_embedded_database_of_the_checkout_is_used() -> None:
    (database,) = settings('s.DATABASES["default"]')
    assert database["ENGINE"] == "xngin_worker.embedded_backend"
    assert database["EMBEDDED_DATA_FOLDER"] == str(DATA_FOLDER)
    assert database["EMBEDDED_BINARIES"] is None
    assert (database["CONN_MAX_AGE"], database["CONN_HEALTH_CHECKS"]) == (None, True)


def test_the_address_of_the_database_arrives_with_its_options() -> None:
    (database,) = settings('s.DATABASES["default"]', DATABASE_URL=PRODUCTION["DATABASE_URL"])
    assert database["ENGINE"] == "django.db.backends.postgresql"
    parts = [database[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")]
    assert parts == ["xngin", "worker", "hidden", "127.0.0.1", "1", {"sslmode": "disable"}]
    assert not database["DISABLE_SERVER_SIDE_CURSORS"]


def test_what_the_queue_needs_is_handed_to_it() -> None:
    database, queue = settings(
        's.DATABASES["default"], s.TASKQUEUE',
        XNGIN_PGBOUNCER="yes",
        XNGIN_WEBHOOK_ALLOWED_NETWORKS="127.0.0.0/8",
        XNGIN_CA_BUNDLE=__file__,
    )
    assert database["DISABLE_SERVER_SIDE_CURSORS"]
    assert queue == {"PGBOUNCER": True, "WEBHOOK_ALLOWED_NETWORKS": ["127.0.0.0/8"], "CA_BUNDLE": __file__}


def test_the_newest_key_signs_and_older_ones_are_still_understood() -> None:
    newest, *older = PRODUCTION["XNGIN_SECRET_KEYS"].split(",")
    assert settings("s.SECRET_KEY, s.SECRET_KEY_FALLBACKS", **PRODUCTION) == [newest, older]


def test_production_passes_djangos_check_for_deployment() -> None:
    ended = run("manage.py", "check", "--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert ended.returncode == 0, ended.stderr
    assert "no issues" in ended.stdout


def test_production_moves_to_https_but_answers_health_to_anybody() -> None:
    program = """
import django, json
django.setup()
from django.db import connection
from django.test import Client
moved = Client().get("/admin/", headers={"host": "tasks.example.com"})
served = Client().get("/admin/login/", headers={"host": "tasks.example.com", "x-forwarded-proto": "https"})
refused = Client().get("/admin/", headers={"host": "evil.example.com"})
health = Client().get("/health", headers={"host": "10.1.2.3"})
print(json.dumps({
    "moved": [moved.status_code, moved.headers["location"]],
    "served": [served.status_code, served.headers["strict-transport-security"]],
    "secure": served.cookies["csrftoken"]["secure"],
    "refused": refused.status_code,
    "health": [health.status_code, health.text],
}))
"""
    ended = run("-W", "ignore", "-c", program, DJANGO_SETTINGS_MODULE="xngin_worker.settings", **PRODUCTION)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "moved": [301, "https://tasks.example.com/admin/"],
        "served": [200, "max-age=3600"],
        "secure": True,
        "refused": 400,
        "health": [200, "ok\n"],
    }


def test_the_root_leads_to_the_admin(client: Client) -> None:
    response = client.get("/")
    assert (response.status_code, response.headers["location"]) == (302, "/admin/")


def test_pages_work_under_a_policy_that_allows_only_the_sites_own_files(client: Client) -> None:
    response = client.get("/admin/login/")
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", response.text)


def test_static_files_are_served_without_being_collected(client: Client) -> None:
    response = client.get("/static/admin/css/base.css")
    assert response.status_code == 200
    assert b"body" in b"".join(response.streaming_content)  # type: ignore[attr-defined]


def test_the_database_speaks_utc(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW timezone")
        assert cursor.fetchone() == ("UTC",)


@pytest.mark.parametrize("word", ["makemigrations", "check"])
def test_nothing_is_left_to_do_for(word: str) -> None:
    words = {"makemigrations": ["--check", "--dry-run"], "check": ["--fail-level", "WARNING"]}
    ended = run("manage.py", word, *words[word])
    assert ended.returncode == 0, ended.stdout + ended.stderr
