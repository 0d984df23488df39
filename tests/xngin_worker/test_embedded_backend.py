"""The backend in a process of its own, since its settings are not those of this test run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xngin_worker.embedded_postgres.home import open_home

REPOSITORY = Path(__file__).parents[2]
PROGRAM = """
import json, os, sys
from pathlib import Path
import django
from django.conf import settings

folder = Path(sys.argv[1])
said = {}
settings.configure(DATABASES={"default": {
    "ENGINE": "xngin_worker.embedded_backend", "NAME": "xngin", "EMBEDDED_DATA_FOLDER": folder,
}}, USE_TZ=True)
django.setup()
from django.core.management import call_command
from django.db import connection, connections
import psycopg

said["vendor"] = connection.vendor
said["started by the settings"] = folder.exists()
with psycopg.connect(**connection.get_connection_params()) as raw:
    said["raw"] = raw.info.dbname
with connection.cursor() as cursor:
    cursor.execute("SELECT current_database()")
    said["cursor"] = cursor.fetchone()[0]
name = connection.creation.create_test_db(verbosity=0, autoclobber=True)
with connection.cursor() as cursor:
    cursor.execute("SELECT current_database()")
    said["test database"] = cursor.fetchone()[0]
connection.creation.destroy_test_db("xngin", verbosity=0)
print(json.dumps(said), flush=True)
"""
SHELL_PROGRAM = (
    PROGRAM.partition('said["vendor"]')[0]
    + """
call_command("dbshell", "--", "-X", "-A", "-t", "-c", "SELECT current_database(), current_user")
"""
)


def run(program: str, data_folder: Path, path: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, data_folder],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": path, "PYTHONPATH": os.fspath(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


@pytest.fixture
def data_folder(tmp_path: Path) -> Any:
    folder = tmp_path / "checkout" / ".data"
    yield folder
    if (folder / "postgres").exists():
        home = open_home(folder)
        # In /tmp when the path of this folder is long.
        shutil.rmtree(home.socket_folder())
        shutil.rmtree(home.folder)


def test_server_starts_with_the_first_connection_and_serves_test_databases_too(data_folder: Path) -> None:
    assert json.loads(run(PROGRAM, data_folder, os.environ["PATH"])) == {
        "vendor": "postgresql",
        "started by the settings": False,
        "raw": "xngin",
        "cursor": "xngin",
        "test database": "test_xngin",
    }
    # Its only user has ended.
    assert not (data_folder / "postgres" / "cluster" / "postmaster.pid").exists()


@pytest.mark.parametrize("path", ["of this run", "without psql"])
def test_dbshell_finds_server_and_client(data_folder: Path, path: str) -> None:
    # Nowhere on that path is a client, and the one of the server's programs is taken.
    answer = run(SHELL_PROGRAM, data_folder, os.environ["PATH"] if path == "of this run" else "/nowhere")
    assert answer == "xngin|xngin\n"
