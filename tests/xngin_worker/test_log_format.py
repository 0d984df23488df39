"""Log lines: one JSON object a line whatever is logged, with the same keys from both kinds of loggers."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from xngin_worker.environment import PROJECT_FOLDER
from xngin_worker.log_format import line_formatter, logging_settings


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def written(form: str, log: Callable[[logging.Logger], None]) -> str:
    """What a logger of its own writes to a stream that takes ASCII only."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii" if form == "json" else "utf-8", errors="strict")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(line_formatter(form=form))
    logger = logging.Logger("tests.written")
    logger.addHandler(handler)
    log(logger)
    stream.flush()
    return raw.getvalue().decode()


def line(log: Callable[[logging.Logger], None]) -> dict[str, Any]:
    text = written("json", log)
    assert text.count("\n") == 1
    # As strict as PostgreSQL's jsonb: no NaN, no lone surrogate.
    value: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def test_a_line_has_time_level_event_logger_and_fields() -> None:
    value = line(lambda logger: logger.warning("taken %s", "home", extra={"task_id": "task_1", "attempt": 2}))
    assert list(value) == ["timestamp", "level", "event", "logger", "task_id", "attempt"]
    assert value["level"] == "warning"
    assert value["event"] == "taken home"
    assert value["logger"] == "tests.written"
    assert (value["task_id"], value["attempt"]) == ("task_1", 2)
    at = datetime.fromisoformat(value["timestamp"])
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60


CIRCULAR: dict[str, Any] = {}
CIRCULAR["self"] = CIRCULAR


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("two\nlines", "two\nlines"),
        ("half \ud83d pair", "half ? pair"),
        ("whole \U0001f600 pair", "whole \U0001f600 pair"),
        (r"written \ud83d out", r"written \ud83d out"),
        ("nul \x00", "nul \x00"),
        (float("nan"), "nan"),
        ({"deep": [float("inf"), {1: "\udc80"}]}, {"deep": ["inf", {"1": "?"}]}),
        ({(1, 2): "key"}, {"(1, 2)": "key"}),
        (b"\xff", "b'\\xff'"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
        (Unshowable(), "<Unshowable that cannot be shown>"),
    ],
)
def test_no_value_breaks_a_line(given: object, shown: object) -> None:
    assert line(lambda logger: logger.info("x", extra={"value": given}))["value"] == shown


def test_a_value_that_contains_itself_still_gives_a_line() -> None:
    assert "self" in line(lambda logger: logger.info("x", extra={"value": CIRCULAR}))["value"]


def test_an_event_with_a_lone_surrogate_is_written_in_both_forms() -> None:
    assert line(lambda logger: logger.error("bad \udcff name"))["event"] == "bad ? name"
    assert "bad ? name" in written("console", lambda logger: logger.error("bad \udcff name"))


def fail_with(error: Exception) -> Callable[[logging.Logger], None]:
    def log(logger: logging.Logger) -> None:
        password = "hush"
        try:
            assert password
            raise error
        except Exception:
            logger.exception("failed")

    return log


def test_exceptions_are_structured_and_show_no_local_variables() -> None:
    value = line(fail_with(ValueError("wrong \udcff")))
    (exception,) = value["exception"]
    assert (exception["exc_type"], exception["exc_value"]) == ("ValueError", "wrong ?")
    assert exception["frames"][-1]["name"] == "log"
    assert "hush" not in json.dumps(value)


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_whose_text_raises_is_written(form: str) -> None:
    assert "UnshowableError" in written(form, fail_with(UnshowableError()))


def test_loggers_of_libraries_django_and_structlog_write_the_same_keys_to_standard_error() -> None:
    program = """
import logging, os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "xngin_worker.settings"
django.setup()
import structlog
logging.getLogger("library").error("one", extra={"n": 1})
logging.getLogger("django.server").error("two", extra={"n": 1})
structlog.get_logger("ours").error("three", n=1)
structlog.get_logger("ours").debug("left out")
"""
    ended = _run(program, XNGIN_LOG_FORMAT="json", XNGIN_LOG_LEVEL="INFO")
    lines = [json.loads(text) for text in ended.splitlines()]
    assert [value["event"] for value in lines] == ["one", "two", "three"]
    assert [value["logger"] for value in lines] == ["library", "django.server", "ours"]
    assert all(list(value) == ["timestamp", "level", "event", "logger", "n"] for value in lines)


def test_console_lines_are_for_reading() -> None:
    text = written("console", lambda logger: logger.info("taken", extra={"task_id": "task_1"}))
    assert "taken" in text
    assert "task_1" in text
    assert not text.startswith("{")


def test_the_level_is_the_root_loggers() -> None:
    assert logging_settings(level="ERROR", form="json")["root"]["level"] == "ERROR"


def _run(program: str, **variables: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT_FOLDER,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout == ""
    return ended.stderr
