from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xngin_worker.embedded_postgres import EmbeddedPostgresError, acquire

Users = Callable[..., Any]
Wrap = Callable[[str, str], Path]
# Says "hit" for each signal that can be caught, and ends with its input.
BYSTANDER = """
trap 'echo hit' HUP INT QUIT TERM USR1 USR2
echo ready
while :; do read line && exit 0; done
"""


class Bystander:
    """Another program, to whom a number in a pid file may now belong."""

    def __init__(self, uid: int | None) -> None:
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", BYSTANDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=uid,
            cwd="/",
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def was_left_alone(self) -> bool:
        if self.process.poll() is not None:
            return False
        heard, _ = self.process.communicate(b"end\n", timeout=60)
        return self.process.returncode == 0 and heard == b""


@pytest.fixture
def start_bystander() -> Iterator[Callable[[int | None], Bystander]]:
    started: list[Bystander] = []

    def start(uid: int | None) -> Bystander:
        started.append(Bystander(uid))
        return started[-1]

    yield start
    for bystander in started:
        bystander.process.kill()
        bystander.process.communicate()


def free_number() -> int:
    """The number of a process that has just ended."""
    ended = subprocess.Popen(["/bin/true"])
    ended.wait(60)
    return ended.pid


def pid_file(place: Any, number: object) -> bytes:
    cluster = place.home.cluster
    socket_folder = place.home.socket_folder()
    return f"{number}\n{cluster}\n1796000000\n5432\n{socket_folder}\n\n  1234567         0\nready   \n".encode()


@pytest.mark.parametrize("content", [b"", b"\n", b"123", b"-5\n/some", b"rubbish\x00\xff", b"99999999999999999999\n"])
def test_starts_whatever_is_in_the_pid_file(place: Any, content: bytes) -> None:
    acquire(place.data_folder).release()
    (place.home.cluster / "postmaster.pid").write_bytes(content)
    server = acquire(place.data_folder)
    server.release()
    assert not place.runs()


@pytest.mark.parametrize("whose", ["a shell's", "the account's", "free", "our own", "init's"])
def test_starts_and_leaves_alone_whoever_has_the_number_now(
    place: Any, start_user: Users, start_bystander: Callable[[int | None], Bystander], whose: str
) -> None:
    killed = start_user(place.data_folder).ready()
    killed.sql("CREATE TABLE kept AS SELECT 42 AS answer")
    place.kill_server()
    killed.kill()
    account = place.home.account
    shell = start_bystander(None)
    same_account = start_bystander(account.uid if account.becomes else None)
    number = {
        "a shell's": shell.process.pid,
        "the account's": same_account.process.pid,
        "free": free_number(),
        "our own": os.getpid(),
        "init's": 1,
    }[whose]
    (place.home.cluster / "postmaster.pid").write_bytes(pid_file(place, number))
    (place.home.socket_folder() / ".s.PGSQL.5432.lock").write_bytes(pid_file(place, number))
    users = [start_user(place.data_folder) for _ in range(2)]
    assert [user.ready().sql("SELECT answer FROM kept") for user in users] == [42, 42]
    assert [user.end() for user in users] == [0, 0]
    assert not place.runs()
    assert shell.was_left_alone()
    assert same_account.was_left_alone()


def test_stop_does_not_believe_the_pid_file_either(
    place: Any, start_bystander: Callable[[int | None], Bystander]
) -> None:
    server = acquire(place.data_folder)
    account = place.home.account
    bystander = start_bystander(account.uid if account.becomes else None)
    (place.home.cluster / "postmaster.pid").write_bytes(pid_file(place, bystander.process.pid))
    server.release()
    assert not place.runs()
    assert bystander.was_left_alone()


def test_waits_for_an_orphan_of_a_killed_server_before_it_starts_another(place: Any, start_user: Users) -> None:
    busy = start_user(place.data_folder).ready()
    orphan = busy.sql("SELECT pg_backend_pid()")
    # Work that does not look up for a while; a waiting backend would notice the end of its server at once.
    busy.tell("sql SELECT sum(sqrt(n)) FROM generate_series(1, 6000000) AS n")
    while b"R" not in Path(f"/proc/{orphan}/stat").read_bytes().rpartition(b")")[2][:3]:
        assert not busy.answers_within(0.01)
    place.kill_server()
    assert place.runs()
    acquire(place.data_folder).release()
    assert place.has_ended(orphan)


def test_crash_recovery_is_waited_for_and_keeps_what_was_committed(place: Any, start_user: Users) -> None:
    writer = start_user(place.data_folder).ready()
    writer.sql("CREATE TABLE filled AS SELECT n, repeat('x', 500) AS filling FROM generate_series(1, 200000) AS n")
    writer.sql("INSERT INTO filled VALUES (0, 'the last')")
    place.kill_server()
    assert place.stops_within(60)
    users = [start_user(place.data_folder) for _ in range(2)]
    assert [user.ready().sql("SELECT count(*) FROM filled") for user in users] == [200001, 200001]
    assert "database system was not properly shut down" in place.home.log.read_text()


def test_a_start_is_waited_for_also_when_its_starter_was_killed(
    place: Any, start_user: Users, wrap: Wrap, open_folder: Path
) -> None:
    acquire(place.data_folder).release()
    gate = open_folder / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    starter = start_user(place.data_folder, binaries=wrap("postgres", f"read line <{gate}"))
    with gate.open("w") as opened:
        starter.kill()
        other = start_user(place.data_folder)
        assert not other.answers_within(1.5)
        assert place.postmaster.listener() is None
        opened.write("go\n")
    assert other.ready().sql("SELECT 1") == 1
    assert other.end() == 0
    assert not place.runs()


def test_initdb_killed_half_way_leaves_nothing_to_trip_over(
    place: Any, start_user: Users, wrap: Wrap, open_folder: Path
) -> None:
    gate = open_folder / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    lines = 'for last in "$@"; do case "$last" in --pgdata=*) echo 18 >"${last#--pgdata=}/PG_VERSION" ;; esac; done'
    starter = start_user(place.data_folder, binaries=wrap("initdb", f"{lines}; read line <{gate}; exit 1"))
    with gate.open("w") as opened:
        starter.kill()
        assert list(place.home.folder.glob("unfinished-*/PG_VERSION"))
        assert not place.home.cluster.exists()
        other = start_user(place.data_folder)
        # What the first one started is still at work in there.
        assert not other.answers_within(1)
        opened.write("go\n")
    assert other.ready().sql("SELECT 1") == 1
    assert not list(place.home.folder.glob("unfinished-*"))


def test_failed_initdb_gives_its_reason(place: Any, wrap: Wrap) -> None:
    with pytest.raises(EmbeddedPostgresError, match="initdb: the disk is full"):
        acquire(place.data_folder, wrap("initdb", 'echo "the disk is full" >&2; exit 1'))
    acquire(place.data_folder).release()


def test_server_that_cannot_start_gives_its_last_words(place: Any) -> None:
    acquire(place.data_folder).release()
    control = place.home.cluster / "global" / "pg_control"
    content = control.read_bytes()
    control.unlink()
    with pytest.raises(EmbeddedPostgresError, match=r"does not start: .*pg_control.*\(see .*server\.log\)") as raised:
        acquire(place.data_folder)
    assert "\n" not in str(raised.value)
    assert not place.runs()
    control.write_bytes(content)
    os.chown(control, place.home.account.uid, place.home.account.gid)
    acquire(place.data_folder).release()


def test_data_of_another_major_version_are_named_and_not_touched(place: Any, start_user: Users) -> None:
    acquire(place.data_folder).release()
    cluster = place.home.cluster
    (cluster / "PG_VERSION").write_text("14\n")
    before = everything_in(cluster)
    sentence = start_user(place.data_folder).error()
    assert "PostgreSQL 14" in sentence
    assert "of 18" in sentence
    assert "\n" not in sentence
    assert everything_in(cluster) == before
    assert not place.runs()


def everything_in(folder: Path) -> dict[Path, tuple[int, int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[path] = (facts.st_mode, facts.st_uid, facts.st_mtime_ns, content)
    return found


def test_server_is_durable_private_and_speaks_utf8(place: Any, start_user: Users) -> None:
    user = start_user(place.data_folder).ready()
    wanted = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "max_connections": "200",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
    }
    assert {name: user.sql(f"SELECT current_setting('{name}')") for name in wanted} == wanted
    assert user.sql("SELECT 'B' < 'a'") is True
    assert user.sql("SELECT upper('é')") == "É"
    for folder in (place.home.cluster, place.home.socket_folder()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.home.log.stat().st_mode) == 0o600


def test_log_does_not_grow_for_ever(place: Any) -> None:
    acquire(place.data_folder).release()
    os.truncate(place.home.log, 10_000_001)
    acquire(place.data_folder).release()
    assert place.home.log.stat().st_size < 10_000
    assert place.home.log.with_suffix(".log.old").stat().st_size > 10_000_000


def test_stop_ends_sessions_that_nobody_counts(place: Any) -> None:
    server = acquire(place.data_folder)
    psql = Path(f"/proc/{place.server_pid()}/exe").readlink().with_name("psql")
    session = subprocess.Popen(
        [psql, server.url, "-c", "\\! echo on", "-c", "SELECT pg_sleep(600)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert session.stdout is not None
    assert session.stdout.readline() == b"on\n"
    server.release()
    assert not place.runs()
    session.communicate(timeout=60)
    assert session.returncode not in (0, -signal.SIGKILL)
