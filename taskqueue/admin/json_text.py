"""JSON as the database stores it, made readable: indented, secrets masked, bounded however large or deep it is."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from taskqueue.redaction import redacted, redacted_text

LONGEST_PAGE = 48_000
LONGEST_TEXT = 2_000
LARGEST_READ = 2_000_000

# Marks that turn or hide what is written around them are shown as JSON's own escapes.
_INVISIBLE = re.compile("[\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True, kw_only=True)
class Shown:
    text: str
    is_cut: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Number:
    """A number as it is written; Python's own would round it, or refuse it for its length."""

    text: str


def readable(text: str) -> Shown:
    """The JSON ``text`` for people. One that Python cannot read, or that was cut, is shown as it is, masked."""
    try:
        value = json.loads(text, parse_int=_number, parse_float=_number)
    except (ValueError, RecursionError):
        shown = redacted_text(text, longest=LONGEST_PAGE)
        return Shown(text=_visible(shown), is_cut=len(text) > LONGEST_PAGE)
    return _bounded(redacted(value, longest_text=LONGEST_TEXT))


def _number(text: str) -> _Number:
    return _Number(text=text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…")


def _bounded(value: Any) -> Shown:
    parts: list[str] = []
    length = 0
    for part in _written(value, "\n"):
        length += len(part)
        if length > LONGEST_PAGE:
            return Shown(text="".join(parts), is_cut=True)
        parts.append(part)
    return Shown(text="".join(parts), is_cut=False)


def _written(value: Any, newline: str) -> Iterator[str]:
    inner = newline + "  "
    match value:
        case dict() if value:
            for place, (key, item) in enumerate(value.items()):
                yield ("," if place else "{") + inner + _visible(json.dumps(key, ensure_ascii=False)) + ": "
                yield from _written(item, inner)
            yield newline + "}"
        case list() if value:
            for place, item in enumerate(value):
                yield ("," if place else "[") + inner
                yield from _written(item, inner)
            yield newline + "]"
        case _Number():
            yield value.text
        case _:
            yield _visible(json.dumps(value, ensure_ascii=False))


def _visible(text: str) -> str:
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
