from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from xngin_worker.embedded_postgres import acquire

# The types of the fixtures next door, which cannot be imported from a conftest.
Users = Callable[..., Any]


def test_four_processes_at_once_share_one_server_and_the_last_stops_it(place: Any, start_user: Users) -> None:
    users = [start_user(place.data_folder) for _ in range(4)]
    started = {user.ready().server_started_at() for user in users}
    assert len(started) == 1
    for user in users[:3]:
        assert user.end() == 0
    assert place.runs()
    assert users[3].sql("SELECT 1") == 1
    assert users[3].end() == 0
    assert not place.runs()


def test_after_the_last_user_is_killed_the_next_one_finds_the_server_and_stops_it(
    place: Any, start_user: Users
) -> None:
    killed = start_user(place.data_folder).ready()
    started = killed.server_started_at()
    killed.kill()
    assert place.runs()
    following = start_user(place.data_folder).ready()
    assert following.server_started_at() == started
    assert following.end() == 0
    assert not place.runs()


def test_killing_users_at_every_turn_never_hinders_the_next(place: Any, start_user: Users) -> None:
    for _ in range(3):
        start_user(place.data_folder).ready().kill()
        place.kill_server()
    user = start_user(place.data_folder).ready()
    assert user.sql("SELECT 1") == 1
    assert user.end() == 0
    assert not place.runs()


def test_open_session_survives_the_end_of_whoever_started_the_server(place: Any, start_user: Users) -> None:
    starter = start_user(place.data_folder).ready()
    worker = start_user(place.data_folder).ready()
    backend = worker.sql("SELECT pg_backend_pid()")
    assert starter.end() == 0
    assert worker.sql("SELECT pg_backend_pid()") == backend


@pytest.mark.parametrize(("order", "code"), [("end 0", 0), ("end 7", 7), ("fail", 1)])
def test_exit_and_uncaught_error_stop_the_server(place: Any, start_user: Users, order: str, code: int) -> None:
    user = start_user(place.data_folder).ready()
    user.tell(order)
    assert user.process.wait(60) == code
    assert not place.runs()


def test_forked_child_keeps_the_server_of_a_parent_that_ended(place: Any, start_user: Users) -> None:
    user = start_user(place.data_folder).ready()
    user.tell("fork")
    assert user.hear() == "forked"
    assert user.process.wait(60) == 0
    assert user.sql("SELECT 1") == 1
    user.end()
    assert place.stops_within(60)


def test_ctrl_c_in_the_terminal_of_the_starter_leaves_the_server_to_others(place: Any, start_user: Users) -> None:
    starter = start_user(place.data_folder).ready()
    other = start_user(place.data_folder).ready()
    started = other.server_started_at()
    os.killpg(starter.process.pid, signal.SIGINT)
    starter.process.wait(60)
    assert other.server_started_at() == started
    assert os.getsid(place.server_pid()) != starter.process.pid


def test_ctrl_c_while_the_server_starts_leaves_none_behind(
    place: Any, start_user: Users, wrap: Callable[[str, str], Path], open_folder: Path
) -> None:
    gate = open_folder / "gate"
    os.mkfifo(gate, 0o666)
    gate.chmod(0o666)
    user = start_user(place.data_folder, binaries=wrap("postgres", f"read line <{gate}"))
    # Opening it waits for the program to come to its gate.
    with gate.open("w") as opened:
        os.killpg(user.process.pid, signal.SIGINT)
        opened.write("go\n")
    assert user.process.wait(60) != 0
    assert not place.runs()


def test_a_server_that_died_under_its_user_is_started_again(place: Any, start_user: Users) -> None:
    user = start_user(place.data_folder).ready()
    user.sql("CREATE TABLE kept AS SELECT 42 AS answer")
    place.kill_server()
    user.tell("acquire")
    assert user.hear()
    assert user.sql("SELECT answer FROM kept") == 42
    assert user.end() == 0
    assert not place.runs()


def test_threads_of_one_process_are_one_user(place: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        servers = set(pool.map(lambda _: acquire(place.data_folder), range(8)))
    (server,) = servers
    with psycopg.connect(server.url) as connection:
        assert connection.info.dbname == "xngin"
    server.release()
    assert not place.runs()
    server.release()


def test_acquired_again_after_a_release_it_runs_again(place: Any) -> None:
    acquire(place.data_folder).release()
    server = acquire(place.data_folder)
    assert place.runs()
    server.release()
    assert not place.runs()


def test_data_folder_removed_under_a_user_does_not_keep_a_server(place: Any, tmp_path: Path, as_root: None) -> None:
    server = acquire(place.data_folder)
    home = place.home
    pid = place.server_pid()
    (place.data_folder / "postgres").unlink()
    (place.data_folder / "postgres.lock").unlink()
    place.data_folder.rmdir()
    server.release()
    assert place.has_ended(pid)
    # Back in its place, for the fixture to clear away.
    place.data_folder.mkdir()
    (place.data_folder / "postgres").symlink_to(home.folder)
