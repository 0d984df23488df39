"""The reader of the pages notices when a page is wrong; else the tests of the examples could not fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.docs.pages import ROOT, Block
from tests.docs.reader import Reader

pytestmark = pytest.mark.django_db(transaction=True)
_NONE: Mapping[str, str] = MappingProxyType({})


def _block(language: str, code: str, options: Mapping[str, str] = _NONE) -> Block:
    return Block(page=ROOT / "README.md", line=1, language=language, code=code, options=options)


@pytest.mark.parametrize(
    "block",
    [
        _block("python", "raise ValueError\n"),
        _block("python", ">>> 1 + 1\n3\n"),
        _block("python", ">>> 1 + 1\nTraceback (most recent call last):\n    ...\nValueError: no\n"),
        _block("sql", "INSERT INTO no_such_table VALUES (1)\n"),
        _block("sh", "./run no-such-word\n"),
        _block("sh", "./run check\n", {"exit": "1"}),
        _block("sh", "./run check\n", {"serve": "started"}),
        _block("env", "XNGIN_PGBOUNSER=yes\n"),
        _block("env", "XNGIN_PGBOUNCER=perhaps\n"),
        _block("cobol", "STOP RUN.\n"),
    ],
    ids=lambda block: f"{block.language} {block.first_line}",
)
def test_an_example_that_goes_wrong_fails(block: Block, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader, pytest.raises(AssertionError):
        reader.follow(block)


@pytest.mark.parametrize(
    "block",
    [_block("python", "print('two')\n"), _block("sql", "SELECT 'two' AS name\n"), _block("sh", "echo two\n")],
    ids=lambda block: block.language,
)
def test_an_output_that_is_not_what_the_page_shows_fails(block: Block, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(block)
        with pytest.raises(AssertionError):
            reader.follow(_block("text", "three\n"))


def test_names_and_handlers_of_a_page_are_gone_after_it(tmp_path: Path) -> None:
    from taskqueue.handlers import registry

    code = "from taskqueue.handlers import handler\n\n\n@handler('page.only')\ndef only(payload):\n    return payload\n"
    with Reader(tmp_path) as reader:
        reader.follow(_block("python", code, {"file": "page_app/task_handlers.py"}))
        reader.follow(_block("python", "from page_app.task_handlers import only\n"))
        assert registry.get("page.only") is not None
    assert registry.get("page.only") is None
