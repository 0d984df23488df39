"""Which handler a task type has, what payload it takes, how long it may run and how it is retried."""

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pydantic

from taskqueue.errors import HandlerConfigurationError, InvalidPayload
from taskqueue.retry import LONGEST_SECONDS, RetryPolicy
from taskqueue.text import problem_of_name

DEFAULT_TIMEOUT_SECONDS = 600.0
DEFAULT_QUEUE = "default"

type HandlerFunction = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class TaskContext:
    """What a handler may know of the attempt it is."""

    id: str
    task_type: str
    attempt: int
    retry_count: int
    correlation_id: str
    deadline: datetime
    # A failure of this attempt is final: no retry is left.
    last_try: bool = False
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True once the attempt should end: its time is up, or the worker stops. Long handlers look now and then."""
        return self.stop.is_set()


@dataclass(frozen=True, kw_only=True)
class Handler:
    task_type: str
    function: HandlerFunction
    payload: Any = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    queue: str = DEFAULT_QUEUE
    is_async: bool = False
    takes_context: bool = True
    adapter: pydantic.TypeAdapter[Any] | None = None

    def parse(self, payload: Any) -> Any:
        """The payload as the handler's declared type.

        Raises ``InvalidPayload`` naming every field that does not fit; values of fields are never quoted, since they
        may be secrets.
        """
        if self.adapter is None:
            return payload
        try:
            return self.adapter.validate_python(payload)
        except pydantic.ValidationError as error:
            raise InvalidPayload(self.task_type, _problems(error)) from None


class Registry:
    """Handlers by task type. Duplicates are refused, since the order of imports must never decide what runs."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return MappingProxyType(self._handlers)

    def get(self, task_type: str) -> Handler | None:
        return self._handlers.get(task_type)

    def add(self, handler: Handler) -> None:
        known = self._handlers.get(handler.task_type)
        if known is not None and known.function is not handler.function:
            raise HandlerConfigurationError(
                f"task type {handler.task_type!r} has two handlers: {_name(known.function)} and "
                f"{_name(handler.function)}; rename one of the types"
            )
        self._handlers[handler.task_type] = handler

    def remove(self, task_type: str) -> None:
        self._handlers.pop(task_type, None)


registry = Registry()


def register_handler(
    task_type: str,
    function: HandlerFunction,
    *,
    payload: Any = None,
    retry: RetryPolicy | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    queue: str = DEFAULT_QUEUE,
    into: Registry = registry,
) -> None:
    """Make ``function(payload, context)`` the handler of ``task_type``.

    ``payload`` is a pydantic model, a dataclass or any other type pydantic can validate; without one the handler gets
    the JSON value as it is. A function with one parameter gets no context. ``timeout`` is in seconds.

    Raises ``HandlerConfigurationError`` for a second handler of a type, or one that cannot be called that way.
    """
    for what, value in (("task type", task_type), ("queue", queue)):
        problem = problem_of_name(value)
        if problem is not None:
            raise HandlerConfigurationError(f"the {what} {value!r} of {_name(function)} {problem}")
    if not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_SECONDS:
        raise HandlerConfigurationError(
            f"{task_type!r}: timeout must be more than 0 seconds and at most a year, got {timeout!r}"
        )
    into.add(
        Handler(
            task_type=task_type,
            function=function,
            payload=payload,
            retry=retry or RetryPolicy(),
            timeout_seconds=float(timeout),
            queue=queue,
            is_async=_is_async(function),
            takes_context=_takes_context(task_type, function),
            adapter=None if payload is None else pydantic.TypeAdapter(payload),
        )
    )


def handler[F: HandlerFunction](
    task_type: str,
    *,
    payload: Any = None,
    retry: RetryPolicy | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    queue: str = DEFAULT_QUEUE,
    into: Registry = registry,
) -> Callable[[F], F]:
    """``register_handler`` as a decorator; the function itself stays as it is and can be called in tests."""

    def register(function: F) -> F:
        register_handler(task_type, function, payload=payload, retry=retry, timeout=timeout, queue=queue, into=into)
        return function

    return register


def _is_async(function: HandlerFunction) -> bool:
    # The function itself, or through functools.partial, or an object whose call is async.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _takes_context(task_type: str, function: HandlerFunction) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise HandlerConfigurationError(f"{task_type!r}: {_name(function)} cannot be called: {error}") from error
    for arguments, takes in (((None, None), True), ((None,), False)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return takes
    raise HandlerConfigurationError(
        f"{task_type!r}: {_name(function)}{signature} must take a payload and a context, or a payload alone"
    )


def _name(function: HandlerFunction) -> str:
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name else repr(function)


# Pydantic's own words for these quote what was given.
_UNQUOTED = {
    "union_tag_invalid": "Input has a tag that none of the expected types has",
    "uuid_parsing": "Input should be a valid UUID",
}


def _problems(error: pydantic.ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in item['loc']) or 'payload'}: {_UNQUOTED.get(item['type'], item['msg'])}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
