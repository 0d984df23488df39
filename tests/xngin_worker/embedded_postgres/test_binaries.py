from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from xngin_worker.embedded_postgres import EmbeddedPostgresError, acquire
from xngin_worker.embedded_postgres.binaries import candidates, find_binaries, first_that_runs, with_neighbours
from xngin_worker.embedded_postgres.home import Home, open_home


@pytest.fixture
def home(open_folder: Path) -> Home:
    return open_home(open_folder)


@pytest.fixture
def make_programs(open_folder: Path) -> Callable[[str, bytes], Path]:
    def make(name: str, content: bytes) -> Path:
        folder = open_folder / name / "bin"
        folder.mkdir(parents=True)
        for program in ("initdb", "postgres"):
            (folder / program).write_bytes(content)
            (folder / program).chmod(0o755)
        return folder

    return make


def test_the_named_folder_comes_first_and_then_the_package(home: Home, wrap: Callable[[str, str], Path]) -> None:
    named = wrap("postgres", "")
    assert find_binaries(named, home).folder == named
    assert [candidate.folder for candidate in candidates(named)][1:] == [one.folder for one in candidates(None)]
    assert next(iter(candidates(None))).folder.match("embedded_postgres/pginstall/bin")
    assert find_binaries(None, home).major >= 15


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x7fELF of another machine",
        b"#!/no/such/interpreter\n",
        b"#!/bin/sh\necho 'libpq.so.5: no such file' >&2\nexit 127\n",
        b"#!/bin/sh\necho hello\n",
        b"#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n",
    ],
)
def test_programs_that_do_not_run_are_passed_over(
    home: Home, make_programs: Callable[[str, bytes], Path], content: bytes
) -> None:
    broken = make_programs("broken", content)
    found = find_binaries(broken, home)
    assert found.folder != broken
    assert found.major >= 15


def test_without_any_that_runs_one_sentence_says_what_was_tried(
    home: Home, make_programs: Callable[[str, bytes], Path], open_folder: Path
) -> None:
    choices = {
        open_folder / "missing": "No such file or directory",
        make_programs(
            "libraries", b"#!/bin/sh\necho 'libpq.so.5: no such file' >&2\nexit 127\n"
        ): "libpq.so.5: no such file",
        make_programs("old", b"#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n"): "version 14.9 is too old",
        make_programs("killed", b"#!/bin/sh\nexit 3\n"): "ended with 3",
    }
    with pytest.raises(EmbeddedPostgresError) as raised:
        first_that_runs([with_neighbours(folder) for folder in choices], home)
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert "embedded-postgres" in sentence
    for folder, reason in choices.items():
        assert f"{folder}: {reason}" in sentence


def test_programs_out_of_reach_without_a_tree_of_their_own_are_not_copied(
    as_root: None, tmp_path: Path, home: Home
) -> None:
    folder = tmp_path / ".local" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / ".local" / "lib").mkdir()
    for program in ("initdb", "postgres"):
        (folder / program).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.1'\n")
        (folder / program).chmod(0o755)
    with pytest.raises(EmbeddedPostgresError, match=f"{folder}: out of reach of {home.account.name}"):
        first_that_runs([with_neighbours(folder)], home)
    assert not (home.folder / "programs").exists()


DEBIAN = sorted(Path("/usr/lib/postgresql").glob("1[5-9]/bin/initdb"))


@pytest.mark.skipif(not DEBIAN, reason="no server package of Debian here")
def test_programs_of_debian_make_a_server_too(place: Any) -> None:
    server = acquire(place.data_folder, DEBIAN[0].parent)
    with psycopg.connect(server.url) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'), 'B' < 'a'"
        ).fetchone()
    server.release()
    assert row == (int(DEBIAN[0].parents[1].name), "UTF8", True)
    assert not place.runs()
