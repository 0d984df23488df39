"""The script `run` in small checkouts of its own, on machines whose PATH holds exactly what a test puts there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import (
    BROKEN,
    OLD_PYTHON,
    PYTHON,
    PYTHON_WITHOUT_VENV,
    Machine,
    build_machine,
    link_tools,
)
from xngin_worker.environment import PROJECT_FOLDER


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return build_machine(tmp_path)


@pytest.fixture
def ready(machine: Machine) -> Machine:
    """A machine on which everything is set up."""
    machine.has("python3.13", PYTHON)
    assert machine.run("version").returncode == 0
    return machine


def said(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_alone_it_lists_its_words_and_sets_nothing_up(machine: Machine, words: tuple[str, ...]) -> None:
    ended = machine.run(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    for word in ("demo", "test", "runworker", "runweb", "migrate", "manage.py"):
        assert word in ended.stdout
    assert not machine.venv.exists()
    assert machine.asked() == []


@pytest.mark.parametrize(
    ("words", "program", "arguments"),
    [
        (["test"], "pytest", ["--numprocesses", "2", "--dist", "loadfile"]),
        (["test", "tests/x y", "-k", "a and not b", ""], "pytest", ["tests/x y", "-k", "a and not b", ""]),
        (["runworker", "--queues", "*", "$HOME", "it's"], "manage.py", ["runworker", "--queues", "*", "$HOME", "it's"]),
        (["demo", "--once"], "manage.py", ["demo", "--once"]),
        (["help"], "manage.py", ["help"]),
    ],
)
def test_words_and_arguments_arrive_untouched(
    ready: Machine, words: list[str], program: str, arguments: list[str]
) -> None:
    ended = ready.run(*words)
    assert said(ended)[:3] == [program, arguments, str(ready.checkout)]
    assert ended.stderr == ""


def test_it_works_in_its_own_folder_also_through_links_to_links(ready: Machine) -> None:
    links = ready.folder / "links"
    links.mkdir()
    (links / "first").symlink_to(f"../{ready.checkout.name}/run")
    (ready.path / "second").symlink_to(links / "first")
    for words in ([links / "first", "x"], ["second", "x"], ["sh", links / "first", "x"], ["sh", "run", "x"]):
        cwd = ready.checkout if words[1] == "run" else Path("/")
        with ready.start(*words, cwd=cwd) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)[2] == str(ready.checkout)


def test_with_uv_on_the_path_uv_does_it(machine: Machine) -> None:
    machine.has_uv()
    machine.has("python3.13", PYTHON)
    assert said(machine.run("x"))[0] == "manage.py"
    assert machine.asked()[0] == f"uv sync --frozen --quiet python= environment={machine.venv} downloads=never"
    assert not [line for line in machine.asked() if line.startswith("python3.13")]


def test_where_uv_finds_no_python_another_one_makes_the_environment(machine: Machine) -> None:
    machine.has_uv(finds=2)
    machine.has("python3.12", PYTHON)
    said(machine.run("x"))
    assert "python3.12 -m venv --clear" in machine.asked()


def test_uv_is_installed_inside_and_keeps_to_that_environment(machine: Machine) -> None:
    machine.has("python3.13", PYTHON)
    ended = machine.run("x", VIRTUAL_ENV="/elsewhere")
    said(ended)
    assert ended.stderr == "run: setting up .venv with python3.13\n"
    assert "python -m pip install" in machine.asked()
    (sync,) = [line for line in machine.asked() if line.startswith("uv sync")]
    assert sync == (
        f"uv sync --frozen --inexact --quiet python={machine.venv}/bin/python "
        f"environment={machine.venv} downloads=never"
    )


def test_pythons_that_fail_or_are_too_old_are_passed_by(machine: Machine) -> None:
    machine.has("python3.13", BROKEN)
    machine.has("python3.14", OLD_PYTHON)
    machine.has("python3", PYTHON)
    ended = machine.run("x")
    said(ended)
    assert ended.stderr == "run: setting up .venv with python3\n"


def test_the_python_named_by_the_variable_comes_first(machine: Machine) -> None:
    machine.has("python3.13", PYTHON)
    machine.has("mine", PYTHON)
    said(machine.run("x", PYTHON=str(machine.path / "mine")))
    assert "mine -m venv --clear" in machine.asked()


def test_without_a_usable_python_one_sentence_says_what_was_found_and_what_to_install(machine: Machine) -> None:
    machine.has("python3.13", BROKEN)
    machine.has("python3", OLD_PYTHON)
    ended = machine.run("test")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "python3.13 (does not run)" in line
    assert "python3 (3.8)" in line
    assert "install Python 3.13" in line
    assert not machine.venv.exists()


def test_without_any_python_the_sentence_says_so(machine: Machine) -> None:
    ended = machine.run("demo")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "no Python at all" in line


def test_a_python_without_the_module_venv_is_told_with_the_package_to_install(machine: Machine) -> None:
    machine.has("python3.13", PYTHON_WITHOUT_VENV)
    ended = machine.run("demo")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert f"package python3.{sys.version_info.minor}-venv" in line


@pytest.mark.parametrize(("file", "times"), [("uv.lock", 2), (".python-version", 2), ("manage.py", 1)])
def test_it_sets_up_again_only_when_what_is_locked_changed(ready: Machine, file: str, times: int) -> None:
    with (ready.checkout / file).open("a") as changed:
        changed.write("\n")
    ended = ready.run("x")
    said(ended)
    assert sum(line.startswith("uv sync") for line in ready.asked()) == times
    # The environment itself is kept.
    assert sum("-m venv" in line for line in ready.asked()) == 1
    assert ready.run("x").stderr == ""


def test_an_environment_whose_python_is_gone_is_made_anew(ready: Machine) -> None:
    (ready.venv / "bin" / "python").unlink()
    said(ready.run("x"))
    assert sum("-m venv" in line for line in ready.asked()) == 2


def test_a_checkout_that_was_copied_gets_an_environment_of_its_own(ready: Machine) -> None:
    copy = ready.folder / "copy"
    shutil.copytree(ready.checkout, copy, symlinks=True)
    said(Machine(checkout=copy, path=ready.path, folder=ready.folder).run("x"))
    assert sum("-m venv" in line for line in ready.asked()) == 2


def test_a_set_up_that_failed_is_tried_again(machine: Machine) -> None:
    machine.has_uv(syncs=3)
    failed = machine.run("x")
    assert (failed.returncode, failed.stdout) == (3, "")
    machine.has_uv()
    said(machine.run("x"))


@pytest.mark.parametrize("flock", [True, False])
def test_of_several_that_start_at_once_one_sets_up_and_all_go_on(machine: Machine, flock: bool) -> None:
    if not flock:
        (machine.path / "flock").unlink(missing_ok=True)
    machine.has("python3.13", PYTHON)
    with ThreadPoolExecutor(6) as pool:
        for ended in pool.map(lambda number: machine.run(str(number)), range(6)):
            said(ended)
    assert sum("-m venv" in line for line in machine.asked()) == 1
    assert sum(line.startswith("uv sync") for line in machine.asked()) == 1
    assert sorted(entry.name for entry in machine.checkout.iterdir() if "lock" in entry.name) == ["uv.lock"]


@pytest.mark.parametrize("owner", ["gone", None])
def test_a_lock_that_a_killed_set_up_left_is_taken_away(machine: Machine, owner: str | None) -> None:
    (machine.path / "flock").unlink(missing_ok=True)
    machine.has("python3.13", PYTHON)
    lock = machine.checkout / ".venv.lock"
    lock.mkdir()
    if owner:
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            process.wait(timeout=30)
        (lock / "pid").write_text(f"{process.pid}\n")
    said(machine.run("x"))
    assert not lock.exists()


def test_it_becomes_the_program_so_signals_arrive(ready: Machine) -> None:
    with ready.start(ready.script, "wait") as process:
        assert process.stdout
        assert json.loads(process.stdout.readline())[3] == process.pid
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 7


@pytest.mark.parametrize("name", ["release", "web", "worker"])
def test_the_lines_of_the_procfile_leave_no_shell_in_front(ready: Machine, name: str) -> None:
    lines = dict(line.split(": ", 1) for line in (PROJECT_FOLDER / "Procfile").read_text().splitlines())
    assert list(lines) == ["release", "web", "worker"]
    with ready.start("sh", "-c", lines[name], cwd=ready.checkout) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)[3] == process.pid


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fresh_machine_with_only_a_python_gets_everything_that_is_locked(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    names = ["run", "manage.py", "pyproject.toml", "uv.lock", ".python-version", "README.md", "LICENSE"]
    checkout.mkdir()
    for name in names:
        shutil.copy(PROJECT_FOLDER / name, checkout)
    for package in ("taskqueue", "experiments", "xngin_worker"):
        shutil.copytree(PROJECT_FOLDER / package, checkout / package)
    path = tmp_path / "bin"
    link_tools(path)
    (path / f"python3.{sys.version_info.minor}").symlink_to(Path(sys.executable).resolve())
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("UV_", "VIRTUAL_ENV"))}
    ended = subprocess.run(
        [checkout / "run", "shell", "-v", "0", "-c", "import pytest, django; print(django.__file__)"],
        env={**variables, "PATH": str(path), "DATABASE_URL": "postgresql://127.0.0.1:1/none"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    assert Path(ended.stdout.strip()).is_relative_to(checkout / ".venv")
    assert (checkout / ".venv" / "bin" / "xngin-worker").exists()
