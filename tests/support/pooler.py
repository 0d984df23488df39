"""PgBouncer in transaction mode in front of a test's server, as Debian packages it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.own_server import OwnServer
from xngin_worker.embedded_postgres.home import open_home

_PROGRAM = "pgbouncer"
_SECONDS = 20.0


def program() -> str:
    """Where it is installed. Without it a test is skipped, but never where everything has to be tried (CI=true)."""
    found = shutil.which(_PROGRAM, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found is None:
        reason = "PgBouncer is not installed (apt-get install pgbouncer)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextlib.contextmanager
def started(server: OwnServer, database: str, **settings: str) -> Iterator[str]:
    """The address of the database behind the pooler."""
    account = open_home(server.data_folder).account
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="xngin-test-", dir="/tmp"))
    folder.chmod(0o755)
    values = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "pool_mode": "transaction",
        "auth_type": "any",
        "default_pool_size": "4",
        "max_client_conn": "200",
        **settings,
    }
    user, own = server.server.user, server.server
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{database} = host={server.host} port={own.port} dbname={database} user={user}\n"
        "[pgbouncer]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program(), folder / "pgbouncer.ini"],
            **{**account.process_arguments(), "stdin": subprocess.DEVNULL},
            stdout=log,
            stderr=log,
        )
    url = f"postgresql://{user}@127.0.0.1:{port}/{database}"
    try:
        _wait(url, process, folder / "log")
        yield url
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PgBouncer does not answer: {log.read_text()}") from None
            time.sleep(0.02)
