"""How log lines look: one JSON object a line, or readable text for a person at a terminal.

Lines of the standard library's loggers and of structlog's go through the same processors, so they have the
same keys: `timestamp`, `level`, `event`, `logger`, and the fields. No value can break a line.
"""

from __future__ import annotations

import json
import logging.config
import math
from collections.abc import Mapping
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def logging_settings(*, level: str, form: str) -> dict[str, Any]:
    """Django's LOGGING for one handler on standard error in the given form (`json` or `console`)."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": "xngin_worker.log_format.line_formatter", "form": form}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        # Django gives these handlers of their own; theirs would print a second, differently formed line.
        "loggers": {
            "django": {"handlers": [], "level": "NOTSET", "propagate": True},
            "django.server": {"handlers": [], "level": "NOTSET", "propagate": True},
        },
    }


def configure(settings: dict[str, Any]) -> None:
    """Put the settings in force for the standard library's loggers, and send structlog's through them."""
    logging.config.dictConfig(settings)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def line_formatter(*, form: str) -> logging.Formatter:
    """The formatter that both kinds of loggers share."""
    rendering: list[Processor]
    if form == "json":
        # Local variables stay out of tracebacks: they hold passwords and payloads.
        rendering = [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False, max_frames=30)),
            render_json,
        ]
    else:
        rendering = [
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
            _replace_unencodable,
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder()],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )


def render_json(_logger: WrappedLogger, _name: str, event_dict: EventDict) -> str:
    """One line of ASCII: whatever the encoding of standard error is, it can be written and read back."""
    ordered = {key: event_dict.pop(key) for key in ("timestamp", "level", "event", "logger") if key in event_dict}
    ordered.update(event_dict)
    try:
        text = json.dumps(ordered, default=_as_text, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        # Keys that are no text, NaN, an object that contains itself.
        text = json.dumps({str(key): _plain(value) for key, value in ordered.items()})
    return _without_lone_surrogates(text) if "\\ud" in text else text


def _plain(value: object, depth: int = 0) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < 5:
        if isinstance(value, Mapping):
            return {_as_text(key): _plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [_plain(item, depth + 1) for item in value]
    return _as_text(value)


def _as_text(value: object) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except Exception:  # noqa: BLE001  # whatever a foreign __str__ raises, the line is written
        return f"<{type(value).__name__} that cannot be shown>"


def _without_lone_surrogates(text: str) -> str:
    """Half of a surrogate pair is legal in Python and in JSON's escapes, but many readers refuse it."""
    shown = json.dumps(json.loads(text), ensure_ascii=False)
    return json.dumps(json.loads(shown.encode("utf-8", "replace")))


def _replace_unencodable(_logger: WrappedLogger, _name: str, line: Any) -> str:
    return str(line).encode("utf-8", "replace").decode("utf-8")
