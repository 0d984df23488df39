"""The lines that people copy to deploy: no shell between the platform and the worker, and words that exist."""

from __future__ import annotations

import json
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, Block, blocks_of
from tests.docs.words import words_of_run


def _blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if block.language == language]


def test_the_procfile_is_shown_as_it_is() -> None:
    shown = _blocks("procfile")
    assert shown
    assert {block.code for block in shown} == {(ROOT / "Procfile").read_text()}


def test_the_lines_of_the_procfile_replace_their_shell() -> None:
    for line in (ROOT / "Procfile").read_text().splitlines():
        _, _, command = line.partition(": ")
        become, run, word = command.split()
        assert (become, run) == ("exec", "./run")
        assert word in words_of_run()


def test_the_dockerfile_starts_the_worker_without_a_shell() -> None:
    for block in _blocks("dockerfile"):
        lines = dict(line.split(" ", 1) for line in block.code.splitlines())
        assert list(lines) == ["FROM", "WORKDIR", "COPY", "RUN", "USER", "CMD"]
        run, word = json.loads(lines["CMD"])
        assert (ROOT / run).is_file()
        assert word in words_of_run()
        # What the set-up leaves behind is the key of a development checkout, which has no place in an image.
        assert lines["RUN"] == "./run version && rm -r .data"
        assert lines["FROM"] == f"python:{_python_of_the_project()}-slim"
    assert _blocks("dockerfile")


def _python_of_the_project() -> str:
    return (ROOT / Path(".python-version")).read_text().strip()
