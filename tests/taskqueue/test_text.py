"""Whatever a handler says can be stored, within its limit, and nothing is lost without a word."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskqueue.text import MESSAGE_LIMIT, TRACEBACK_LIMIT, message_of, storable, storable_json, traceback_of

# Any code point there is: lone surrogates, NUL, the four-byte planes.
_TEXT = st.text(st.characters(codec=None, categories=None), max_size=300)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(text=_TEXT, times=st.integers(0, 40), limit=st.integers(0, 500))
def test_storable_text_never_exceeds_its_limit_and_keeps_what_fits(text: str, times: int, limit: int) -> None:
    text *= times
    stored = storable(text, limit)

    assert len(stored.encode()) <= limit
    if len(text.encode(errors="replace")) <= limit and text.isprintable():
        assert stored == text


@pytest.mark.django_db
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_TEXT)
def test_postgresql_takes_every_storable_text_unchanged(text: str) -> None:
    stored = storable(text)
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::text", [stored])
        assert cursor.fetchone() == (stored,)


@pytest.mark.django_db
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_JSON)
def test_postgresql_takes_every_value_that_is_storable_json_and_refuses_the_others(value: Any) -> None:
    try:
        text = storable_json(value)
    except ValueError:
        assert _postgresql_refuses(json.dumps(value))
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [text])
        (back,) = cursor.fetchall()
    # The server writes out 1e+16 as an integer, which Python would compare digit by digit.
    assert json.loads(back[0], parse_int=float) == json.loads(text, parse_int=float)


def _postgresql_refuses(text: str) -> bool:
    with psycopg.connect(**_parameters(), autocommit=True) as other:
        try:
            other.execute("SELECT %s::jsonb", [text])
        except psycopg.Error:
            return True
    return False


def _parameters() -> dict[str, Any]:
    given_parameters = connection.get_connection_params()
    return {
        name: given_parameters[name]
        for name in ("dbname", "user", "host", "port", "password")
        if name in given_parameters
    }


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), b"bytes", {(1, 2): 3}, float("nan"), float("inf"), 10**5000], ids=type
)
def test_what_is_not_json_is_refused_with_a_reason(value: object) -> None:
    with pytest.raises(ValueError, match=r"^is not JSON: "):
        storable_json(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueError, match="is not JSON"):
        storable_json(value)
    with pytest.raises(ValueError, match="is not JSON"):
        storable_json(_nested(200_000))


def test_nul_is_refused_and_a_backslash_before_u0000_is_not() -> None:
    with pytest.raises(ValueError, match="NUL"):
        storable_json({"a": ["x\x00"]})
    with pytest.raises(ValueError, match="NUL"):
        storable_json({"a\\\x00": 1})
    assert json.loads(storable_json("\\u0000")) == "\\u0000"


def test_a_message_of_fifty_megabytes_is_cut_to_head_and_tail() -> None:
    message = message_of(ValueError("head" + "ä" * 25_000_000 + "tail"))

    assert len(message.encode()) <= MESSAGE_LIMIT
    assert message.startswith("ValueError: head")
    assert message.endswith("tail")
    assert "characters left out" in message


def test_a_traceback_keeps_its_head_and_its_tail() -> None:
    def deep(level: int) -> None:
        if level == 0:
            raise ValueError("the reason " + "x" * 50_000 + " the end")
        deep(level - 1)

    with pytest.raises(ValueError, match="the reason") as raised:
        deep(50)
    text = traceback_of(raised.value)

    assert len(text.encode()) <= TRACEBACK_LIMIT
    assert text.startswith("Traceback (most recent call last)")
    assert text.rstrip().endswith("the end")


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_exception_whose_text_cannot_be_had_is_named_all_the_same() -> None:
    assert message_of(_Mute()) == "_Mute: (its str() raised RuntimeError)"
    assert "_Mute" in traceback_of(_Mute())
    assert message_of(ValueError()) == "ValueError"


def _nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value
