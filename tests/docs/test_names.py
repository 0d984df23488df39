"""What the pages name in code type exists: files, variables, options, commands, events, names in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, code_words_of, name_of
from tests.docs.words import problems_in


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_name_on_the_page_exists(page: Path) -> None:
    problems = [f"`{word}`: {problem}" for word in code_words_of(page) for problem in problems_in(word)]
    assert problems == []


@pytest.mark.parametrize(
    "word",
    [
        "taskqueue/no_such_file.py",
        "no_such_file.py",
        "XNGIN_PGBOUNSER",
        "./run runwroker",
        "--no-such-option",
        "taskqueue.no.such.event",
        "no_such_column",
        "NoSuchClass",
    ],
)
def test_a_name_that_does_not_exist_is_found(word: str) -> None:
    assert list(problems_in(word))
