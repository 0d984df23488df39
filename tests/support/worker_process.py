"""`manage.py runworker` as a real process: heard through its JSON log lines, signalled, and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 30.0
LOOK_SECONDS = 0.02

type Line = dict[str, Any]
type StartWorker = Callable[..., WorkerProcess]


def environment(database_url: str, **variables: str) -> dict[str, str]:
    """That of this process without what could change the worker's behaviour, and with the tests' handlers."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("XNGIN_", "PG"))}
    return {
        **inherited,
        "PYTHONPATH": os.fspath(REPOSITORY),
        "DATABASE_URL": database_url,
        "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings",
        "XNGIN_LOG_FORMAT": "json",
        **variables,
    }


class WorkerProcess:
    """One worker with a session of its own, so that whatever it starts can be found by that session."""

    def __init__(
        self, database_url: str, *options: str, command: Sequence[str] | None = None, **variables: str
    ) -> None:
        words = command or [sys.executable, os.fspath(REPOSITORY / "manage.py"), "runworker", *options]
        self.process = subprocess.Popen(
            words,
            cwd=REPOSITORY,
            env=environment(database_url, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: list[Line] = []
        self._plain: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="worker's log", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def started(self) -> WorkerProcess:
        self.wait_for("taskqueue.worker.started")
        return self

    def lines(self, event: str, **fields: object) -> list[Line]:
        """What was said so far under this name, with these values."""
        with self._changed:
            return [line for line in self._lines if _fits(line, event, fields)]

    def wait_for(self, event: str, *, count: int = 1, seconds: float = DEADLINE_SECONDS, **fields: object) -> Line:
        """The ``count``-th line of this name with these values, said before or within the time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                found = [line for line in self._lines if _fits(line, event, fields)]
                if len(found) >= count:
                    return found[count - 1]
                left = deadline - time.monotonic()
                if left <= 0 or self._closed:
                    why = "it has ended" if self._closed else f"not within {seconds:g} s"
                    raise AssertionError(f"no {event} {fields or ''} ({why}); it said:\n{self._all_said()}")
                self._changed.wait(left)

    def said(self) -> str:
        """All it wrote, for messages and for what is said in plain words."""
        with self._changed:
            return self._all_said()

    def plain_lines(self) -> list[str]:
        with self._changed:
            return list(self._plain)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Its exit code, once it has ended by itself and all it said is here."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it still runs after {seconds:g} s; it said:\n{self.said()}") from None
        self._reader.join(DEADLINE_SECONDS)
        return code

    def stop(self, number: int = signal.SIGTERM, seconds: float = DEADLINE_SECONDS) -> int:
        self.send(number)
        return self.ended(seconds)

    def kill(self) -> None:
        """Without a chance to clean up, as the kernel does when memory is short."""
        self.process.kill()
        self.ended()

    def others_in_session(self) -> list[int]:
        """Processes that live on in its session besides itself."""
        return [pid for pid in _processes_of_session(self.pid) if pid != self.pid]

    def wait_until_alone(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Until nothing lives in its session any more, itself apart."""
        deadline = time.monotonic() + seconds
        while others := self.others_in_session():
            assert time.monotonic() < deadline, f"{others} live on"
            time.sleep(LOOK_SECONDS)

    def clear_away(self) -> None:
        for pid in [*self.others_in_session(), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE_SECONDS)
        self._reader.join(DEADLINE_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            with self._changed:
                if isinstance(line, dict):
                    self._lines.append(line)
                else:
                    self._plain.append(text.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _all_said(self) -> str:
        return "\n".join([*self._plain, *(json.dumps(line) for line in self._lines[-60:])])


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for this signal, by the word of the kernel."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
    for line in status.splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _fits(line: Line, event: str, fields: dict[str, object]) -> bool:
    return line.get("event") == event and all(line.get(key) == value for key, value in fields.items())


def _processes_of_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != b"Z":
            found.append(int(entry.name))
    return found
