"""manage.py under interpreters that cannot run the project: one clear line instead of a traceback."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from xngin_worker.environment import PROJECT_FOLDER

MANAGE = PROJECT_FOLDER / "manage.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)


def test_its_syntax_is_understood_by_old_pythons() -> None:
    ast.parse(MANAGE.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("version", ["(2, 7, 18)", "(3, 8, 18)", "(3, 11, 9)"])
def test_an_old_python_is_told_in_one_line(version: str) -> None:
    program = f"import runpy, sys; sys.version_info = {version}; runpy.run_path({str(MANAGE)!r}, run_name='__main__')"
    ended = run("-c", program)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "needs Python 3.12 or newer" in line
    assert "./run" in line


def test_a_python_without_django_is_pointed_to_the_script() -> None:
    # -I and -S: neither the packages of the environment nor those of the user.
    ended = run("-I", "-S", str(MANAGE), "check")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "Django is not installed" in line
    assert "./run" in line


def test_the_console_script_is_the_word_runworker() -> None:
    script = Path(sys.executable).with_name("xngin-worker")
    of_script = subprocess.run([script, "--help"], cwd="/", capture_output=True, text=True, check=True, timeout=60)
    of_word = run(str(MANAGE), "runworker", "--help")
    assert of_word.returncode == 0, of_word.stderr
    assert of_script.stdout.split("options:")[1] == of_word.stdout.split("options:")[1]
