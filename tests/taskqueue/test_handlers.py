"""What may be registered as a handler, and what its declared payload lets through."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pydantic
import pytest

from taskqueue.errors import HandlerConfigurationError, InvalidPayload
from taskqueue.handlers import Handler, Registry, TaskContext, handler, register_handler

SECRET = "s3cret-hunter2"


def _with_context(payload: Any, context: TaskContext) -> None: ...


def _alone(payload: Any) -> None: ...


def _two(payload: Any, other: Any) -> None: ...


async def _awaited(payload: Any, context: TaskContext) -> None: ...


class _Callable:
    def __call__(self, payload: Any) -> None: ...

    def method(self, payload: Any, context: TaskContext) -> None: ...


class _AsyncCallable:
    async def __call__(self, payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async", "takes_context"),
    [
        (_with_context, False, True),
        (_alone, False, False),
        (_awaited, True, True),
        (_Callable(), False, False),
        (_Callable().method, False, True),
        (_AsyncCallable(), True, False),
        (functools.partial(_two, other=None), False, False),
        (functools.partial(_awaited), True, True),
        (lambda *arguments: None, False, True),
        (lambda payload, context=None: None, False, True),
        (lambda payload, *, other=1: None, False, False),
    ],
)
def test_how_a_handler_is_called_follows_from_its_signature(function: Any, is_async: bool, takes_context: bool) -> None:
    registered = _registered(function)
    assert (registered.is_async, registered.takes_context) == (is_async, takes_context)


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda a, b, c: None, lambda *, payload: None, 42, None, "module.function"],
)
def test_what_cannot_take_a_payload_is_refused_at_registration(function: Any) -> None:
    with pytest.raises(HandlerConfigurationError, match=r"'mail.send'"):
        _registered(function)


@pytest.mark.parametrize("task_type", ["", "x" * 201, None, 7, "a\nb", "a\x00b", "\ud800"])
def test_a_task_type_that_could_never_be_enqueued_is_refused(task_type: Any) -> None:
    with pytest.raises(HandlerConfigurationError, match="task type"):
        register_handler(task_type, _alone, into=Registry())


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, 1e12, "30", None])
def test_a_timeout_that_is_no_span_of_time_is_refused(timeout: Any) -> None:
    with pytest.raises(HandlerConfigurationError, match="timeout"):
        _registered(_alone, timeout=timeout)


@pytest.mark.parametrize("queue", ["", "x" * 201, None, 7, "a\nb"])
def test_a_queue_that_could_never_be_enqueued_to_is_refused(queue: Any) -> None:
    with pytest.raises(HandlerConfigurationError, match="queue"):
        _registered(_alone, queue=queue)


def test_a_second_handler_of_a_type_is_refused_naming_both() -> None:
    handlers = Registry()
    register_handler("mail.send", _alone, into=handlers)
    # An app imported twice registers the same function again, which changes nothing.
    register_handler("mail.send", _alone, into=handlers)

    with pytest.raises(HandlerConfigurationError, match=r"two handlers: .*_alone and .*_with_context"):
        register_handler("mail.send", _with_context, into=handlers)

    assert handlers.handlers["mail.send"].function is _alone


def test_the_decorator_leaves_the_function_as_it_is() -> None:
    handlers = Registry()

    @handler("math.double", timeout=5, queue="numbers", into=handlers)
    def double(payload: int) -> int:
        return 2 * payload

    assert double(21) == 42
    registered = handlers.handlers["math.double"]
    assert (registered.function, registered.timeout_seconds, registered.queue) == (double, 5.0, "numbers")


class _Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: int


class _Cash(pydantic.BaseModel):
    kind: Literal["cash"]


@dataclass
class _Mail:
    to: str
    copies: int = 1


class _Order(pydantic.BaseModel):
    id: UUID
    pay: Annotated[_Card | _Cash, pydantic.Field(discriminator="kind")]
    count: int
    price: Decimal
    day: date
    url: pydantic.HttpUrl
    words: list[str]
    colour: Literal["red", "green"]
    code: Annotated[str, pydantic.Field(pattern="^[a-z]$")]


_VALID = {
    "id": "3f2f3a0e-8b9e-4a6e-9d0e-2f0d1c2b3a4f",
    "pay": {"kind": "card", "number": 7},
    "count": 2,
    "price": "1.50",
    "day": "2026-12-01",
    "url": "https://example.com/",
    "words": ["a"],
    "colour": "red",
    "code": "x",
}


def test_a_payload_arrives_as_its_declared_type() -> None:
    order = _registered(_alone, payload=_Order).parse(_VALID)
    assert isinstance(order, _Order)
    assert (order.price, order.pay) == (Decimal("1.50"), _Card(kind="card", number=7))
    assert _registered(_alone, payload=_Mail).parse({"to": "ann"}) == _Mail(to="ann")
    assert _registered(_alone, payload=list[int]).parse(["1", 2]) == [1, 2]
    assert _registered(_alone).parse({"anything": [None]}) == {"anything": [None]}


def test_every_field_that_does_not_fit_is_named() -> None:
    with pytest.raises(InvalidPayload) as refused:
        _registered(_alone, payload=_Order).parse({**_VALID, "count": "many", "words": ["a", 1], "day": None})

    assert [problem.partition(":")[0] for problem in refused.value.problems] == ["count", "day", "words.1"]


@pytest.mark.parametrize("field", _VALID)
def test_values_of_fields_are_never_quoted(field: str) -> None:
    declared = _registered(_alone, payload=_Order)
    for value in (SECRET, [SECRET], {"kind": SECRET}, {"kind": "card", "number": SECRET}, {SECRET: 1}):
        try:
            declared.parse({**_VALID, field: value})
        except InvalidPayload as error:
            assert SECRET not in str(error)
            assert error.__cause__ is None
            assert error.problems[0].startswith(field)


def test_a_payload_that_is_no_object_is_named_as_a_whole() -> None:
    with pytest.raises(InvalidPayload, match="payload: Input should be"):
        _registered(_alone, payload=_Order).parse(None)


def _registered(function: Any, **options: Any) -> Handler:
    handlers = Registry()
    register_handler("mail.send", function, into=handlers, **options)
    return handlers.handlers["mail.send"]
