"""The pages of the documentation, taken apart: fenced blocks, headings, links, words in code type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES: tuple[Path, ...] = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,})(?P<info>[^`]*)$")
_COMMENT = re.compile(r"^<!-- run: (?P<info>[^>]*)$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block, or a comment ``<!-- run: LANGUAGE … -->``, which readers do not see and tests execute.

    ``options`` are the words after the language: ``file=shop/x.py`` gives a value, a word alone gives "".
    """

    page: Path
    line: int
    language: str
    options: Mapping[str, str] = field(default_factory=dict)
    code: str
    hidden: bool = False

    @property
    def first_line(self) -> str:
        return self.code.strip().partition("\n")[0]

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line} ({self.language})"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    return list(_blocks(page, page.read_text().splitlines()))


def prose_of(page: Path) -> str:
    """The page without its blocks and comments, line for line."""
    lines = page.read_text().splitlines()
    for block in blocks_of(page):
        # The fences themselves go too.
        for number in range(block.line - 1, block.line + block.code.count("\n") + 1):
            lines[number - 1] = ""
    return re.sub(r"<!--.*?-->", "", "\n".join(lines), flags=re.DOTALL)


def code_words_of(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose_of(page))


def anchors_of(page: Path) -> set[str]:
    """What ``#…`` may name on this page: its headings, as the usual viewers turn them into anchors."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose_of(page))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        opening = lines[number]
        number += 1
        fence = _FENCE.match(opening)
        opened = fence or _COMMENT.match(opening)
        if opened is None:
            continue
        start = number
        closing = fence["mark"] if fence else "-->"
        while number < len(lines) and lines[number].strip() != closing:
            number += 1
        if number == len(lines):
            raise AssertionError(f"{name_of(page)}:{start}: this block has no end")
        indent = len(fence["indent"]) if fence else 0
        language, *options = opened["info"].split() or [""]
        yield Block(
            page=page,
            line=start + 1,
            language=language,
            options=dict(_option(option) for option in options),
            code="".join(f"{line[indent:]}\n" for line in lines[start:number]),
            hidden=fence is None,
        )
        number += 1


def _option(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value
