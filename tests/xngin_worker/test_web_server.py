"""`manage.py runweb` as a real process: it becomes gunicorn, answers, and ends when told to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from xngin_worker.environment import PROJECT_FOLDER


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
def web(port: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, PROJECT_FOLDER / "manage.py", "runweb"],
        cwd="/",
        env={**os.environ, "PORT": str(port), "WEB_CONCURRENCY": "1", "XNGIN_LOG_FORMAT": "json"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def answer(port: int, path: str) -> str:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                text: str = response.read().decode()
                return text
        except urllib.error.URLError:
            # Not listening yet. Nothing else tells from outside when it does.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_the_web_process_serves_and_ends_at_sigterm(web: subprocess.Popen[str], port: int) -> None:
    assert answer(port, "/health") == "ok\n"
    assert "body" in answer(port, "/static/admin/css/base.css")
    web.send_signal(signal.SIGTERM)
    out, err = web.communicate(timeout=30)
    assert web.returncode == 0, err
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    assert {line["logger"] for line in lines} == {"gunicorn.error"}
    # It is the process that was started, not a child of it, that listens and was told to end.
    assert any(f"({web.pid})" in line["event"] for line in lines)
