"""Text as PostgreSQL can store it and people can read it: cleaned of what it refuses, and cut."""

import json
import re
import traceback as traceback_module
from typing import Any

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000
NAME_LIMIT = 200
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """``text`` with U+FFFD for NUL and lone surrogates, its middle cut out where it is longer than ``limit`` bytes."""
    if len(text) > limit:
        text = _cut(text, limit)
    text = _NUL_OR_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    while len(text.encode()) > limit:
        text = _cut(text, len(text) * limit // len(text.encode()) - 1)
    return text


def problem_of_name(value: object, limit: int = NAME_LIMIT) -> str | None:
    """What keeps ``value`` from being a name that can be stored, logged and typed; None when nothing does."""
    if not isinstance(value, str) or not 1 <= len(value) <= limit:
        return f"must be a text of 1 to {limit} characters"
    if not value.isprintable():
        return "must not contain control characters or lone surrogates"
    return None


def storable_json(value: Any) -> str:
    """``value`` as JSON that a jsonb column takes, in the order of its keys.

    Raises ``ValueError`` saying what is in the way: objects that are not JSON, NaN, NUL, lone surrogates.
    """
    try:
        text = _JSON.encode(value)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {message_of(error)}") from error
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise ValueError("contains the character NUL, which PostgreSQL cannot store in JSON")
    return text


def message_of(error: BaseException) -> str:
    """The error's text, or what can be said of one whose ``str()`` itself fails."""
    name = type(error).__name__
    try:
        text = str(error)
        text = f"{name}: {text}" if text else name
    except BaseException as trouble:  # noqa: BLE001 - a handler's class may do anything here, even raise SystemExit
        text = f"{name}: (its str() raised {type(trouble).__name__})"
    return storable(text)


def class_path(error: BaseException) -> str:
    """Where the error's class can be imported from."""
    kind = type(error)
    return storable(f"{kind.__module__}.{kind.__qualname__}", 500)


def traceback_of(error: BaseException) -> str:
    """The traceback, head and tail, at most 16 kB."""
    try:
        lines = traceback_module.format_exception(error)
    except BaseException as trouble:  # noqa: BLE001 - formatting calls the error's own code
        lines = traceback_module.format_tb(error.__traceback__)
        lines.append(f"{type(error).__name__} (formatting it raised {type(trouble).__name__})")
    return storable("".join(lines), TRACEBACK_LIMIT)


def _cut(text: str, limit: int) -> str:
    mark = f"\n… {len(text) - limit} characters left out …\n"
    kept = limit - len(mark)
    if kept <= 0:
        return text[: max(limit, 0)]
    head = kept // 2
    return text[:head] + mark + text[len(text) - (kept - head) :]
