from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xngin_worker.embedded_postgres import EmbeddedPostgresError, acquire
from xngin_worker.embedded_postgres.home import OUTSIDE_FOLDERS, open_home, outside_folder

Users = Callable[..., Any]
MakePlace = Callable[[Path], Any]


def modes(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """Of the folder and all above it."""
    facts = {path: path.stat() for path in (folder, *folder.parents)}
    return {path: (fact.st_mode, fact.st_uid, fact.st_gid) for path, fact in facts.items()}


def test_root_in_a_private_home_gets_a_server_and_the_home_stays_private(
    as_root: None, tmp_path: Path, make_place: MakePlace, start_user: Users
) -> None:
    private = tmp_path / "root"
    private.mkdir(mode=0o700)
    place = make_place(private / "checkout" / ".data")
    place.data_folder.mkdir(parents=True)
    before = modes(place.data_folder)
    user = start_user(place.data_folder).ready()
    user.sql("CREATE TABLE kept AS SELECT 42 AS answer")
    assert modes(place.data_folder) == before
    home = place.home
    assert home.folder.parent in OUTSIDE_FOLDERS
    assert home.account.uid != 0
    assert Path(f"/proc/{place.server_pid()}").stat().st_uid == home.account.uid
    assert (home.folder.stat().st_uid, stat.S_IMODE(home.folder.stat().st_mode)) == (0, 0o711)
    assert sorted(path.name for path in place.data_folder.iterdir()) == ["postgres", "postgres.lock"]
    assert user.end() == 0
    assert start_user(place.data_folder).ready().sql("SELECT answer FROM kept") == 42


def test_programs_in_a_private_folder_are_copied_for_the_account(
    as_root: None, tmp_path: Path, place: Any, programs: Path, start_user: Users
) -> None:
    private = tmp_path / "environment"
    shutil.copytree(programs.parents[2], private)
    for folder, _, files in private.walk():
        folder.chmod(0o700)
        for name in files:
            (folder / name).chmod((folder / name).stat().st_mode & 0o700)
    here = private / programs.relative_to(programs.parents[2])
    user = start_user(place.data_folder, binaries=here).ready()
    program = Path(f"/proc/{place.server_pid()}/exe").readlink()
    assert program.is_relative_to(place.home.folder / "programs")
    assert stat.S_IMODE(here.stat().st_mode) == 0o700
    assert user.sql("SELECT count(*) FROM pg_timezone_names") > 100


def test_root_in_an_open_checkout_keeps_the_data_inside(
    as_root: None, open_folder: Path, make_place: MakePlace, start_user: Users
) -> None:
    place = make_place(open_folder / "checkout" / ".data")
    place.data_folder.parent.mkdir()
    before = modes(place.data_folder.parent)
    user = start_user(place.data_folder).ready()
    assert not (place.data_folder / "postgres").is_symlink()
    assert modes(place.data_folder.parent) == before
    assert user.sql("SELECT current_setting('data_directory')") == str(place.data_folder / "postgres" / "cluster")


@pytest.mark.parametrize("name", ["n" * 150, "a, b 'c' \"d\" é %20 @host #"])
def test_checkout_with_a_long_or_strange_path_gets_a_short_private_socket_folder(
    open_folder: Path, make_place: MakePlace, start_user: Users, name: str
) -> None:
    place = make_place(open_folder / name / ".data")
    users = [start_user(place.data_folder) for _ in range(2)]
    started = {user.ready().server_started_at() for user in users}
    assert len(started) == 1
    folder = place.home.socket_folder()
    facts = folder.stat()
    assert len(str(folder)) < 40
    assert (facts.st_uid, stat.S_IMODE(facts.st_mode)) == (place.home.account.uid, 0o700)
    for user in users:
        assert user.end() == 0
    assert not place.runs()


def test_socket_folder_that_vanished_or_is_not_ours_is_replaced(open_folder: Path, make_place: MakePlace) -> None:
    place = make_place(open_folder / ("n" * 150) / ".data")
    server = acquire(place.data_folder)
    server.release()
    gone = server.socket_folder
    gone.rmdir()
    second = acquire(place.data_folder)
    second.release()
    assert second.socket_folder != gone
    second.socket_folder.chmod(0o777)
    third = acquire(place.data_folder)
    third.release()
    assert third.socket_folder not in (gone, second.socket_folder)
    second.socket_folder.rmdir()


def test_ordinary_user_gets_a_server_of_their_own(
    ordinary_uid: int, open_folder: Path, programs: Path, make_place: MakePlace, start_user: Users
) -> None:
    place = make_place(open_folder / "checkout" / ".data")
    place.data_folder.parent.mkdir()
    os.chown(place.data_folder.parent, ordinary_uid, -1)
    how = {"binaries": programs, "uid": ordinary_uid}
    user = start_user(place.data_folder, **how).ready()
    started = user.server_started_at()
    assert start_user(place.data_folder, **how).ready().server_started_at() == started
    assert Path(f"/proc/{place.server_pid()}").stat().st_uid == ordinary_uid
    assert stat.S_IMODE((place.data_folder / "postgres").stat().st_mode) == 0o700


def test_ordinary_user_as_the_last_stops_the_server(
    ordinary_uid: int, open_folder: Path, programs: Path, make_place: MakePlace, start_user: Users
) -> None:
    place = make_place(open_folder / "checkout" / ".data")
    place.data_folder.parent.mkdir()
    os.chown(place.data_folder.parent, ordinary_uid, -1)
    user = start_user(place.data_folder, binaries=programs, uid=ordinary_uid).ready()
    assert user.end() == 0
    assert not place.runs()


def test_root_shares_what_an_ordinary_user_made_and_locks_nobody_out(
    ordinary_uid: int, open_folder: Path, programs: Path, make_place: MakePlace, start_user: Users
) -> None:
    place = make_place(open_folder / "checkout" / ".data")
    place.data_folder.parent.mkdir()
    os.chown(place.data_folder.parent, ordinary_uid, -1)
    how = {"binaries": programs, "uid": ordinary_uid}
    assert start_user(place.data_folder, **how).ready().end() == 0
    root = start_user(place.data_folder, binaries=programs).ready()
    assert Path(f"/proc/{place.server_pid()}").stat().st_uid == ordinary_uid
    user = start_user(place.data_folder, **how).ready()
    assert root.end() == 0
    assert user.sql("SELECT 1") == 1
    assert user.end() == 0
    assert not place.runs()
    assert start_user(place.data_folder, **how).ready().sql("SELECT 1") == 1


@pytest.mark.parametrize("private", [True, False])
def test_ordinary_user_in_a_checkout_that_root_has_used_is_told_so(
    ordinary_uid: int, open_folder: Path, programs: Path, make_place: MakePlace, start_user: Users, private: bool
) -> None:
    place = make_place(open_folder / "checkout" / ".data")
    place.data_folder.mkdir(parents=True)
    if private:
        # Root's lock and home, in a folder that the user may write to.
        os.chown(place.data_folder, ordinary_uid, -1)
    root = start_user(place.data_folder).ready()
    sentence = start_user(place.data_folder, binaries=programs, uid=ordinary_uid).error()
    assert "belongs to root and cannot be used by nobody" in sentence
    assert "\n" not in sentence
    assert root.sql("SELECT 1") == 1


def test_home_that_others_can_write_to_is_refused(place: Any) -> None:
    acquire(place.data_folder).release()
    folder = place.home.folder
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(mode | 0o022)
    with pytest.raises(EmbeddedPostgresError, match="only its owner can write"):
        acquire(place.data_folder)
    folder.chmod(mode)


def test_link_to_a_home_that_was_removed_leads_to_a_new_one(as_root: None, place: Any) -> None:
    acquire(place.data_folder).release()
    removed = place.home.folder
    shutil.rmtree(removed)
    acquire(place.data_folder).release()
    assert place.home.folder != removed


def test_folder_without_permission_is_one_sentence(
    ordinary_uid: int, open_folder: Path, programs: Path, start_user: Users
) -> None:
    sentence = start_user(open_folder / "checkout" / ".data", binaries=programs, uid=ordinary_uid).error()
    assert str(open_folder / "checkout") in sentence
    assert "Permission denied" in sentence


def test_place_outside_is_taken_only_when_it_is_ours_alone(as_root: None, tmp_path: Path) -> None:
    writable = tmp_path / "writable"
    writable.mkdir()
    writable.chmod(0o777)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.chown(foreign, pwd.getpwnam("nobody").pw_uid, -1)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    a_file = tmp_path / "file"
    a_file.touch()
    refused = [writable, foreign, link, a_file, tmp_path / "missing" / "folder"]
    before = modes(tmp_path)
    with pytest.raises(EmbeddedPostgresError) as raised:
        outside_folder(refused)
    assert all(str(folder) in str(raised.value) for folder in refused)
    good = tmp_path / "good"
    assert outside_folder([*refused, good]) == good
    assert (good.stat().st_uid, stat.S_IMODE(good.stat().st_mode)) == (0, 0o711)
    assert modes(tmp_path) == before
    assert stat.S_IMODE(writable.stat().st_mode) == 0o777


def test_data_made_unreachable_later_are_not_replaced_by_empty_ones(
    as_root: None, open_folder: Path, make_place: MakePlace
) -> None:
    place = make_place(open_folder / "checkout" / ".data")
    acquire(place.data_folder).release()
    place.data_folder.parent.chmod(0o700)
    with pytest.raises(EmbeddedPostgresError, match="cannot be reached by"):
        open_home(place.data_folder)
    place.data_folder.parent.chmod(0o755)
