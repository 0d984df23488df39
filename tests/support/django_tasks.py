"""Django's tasks as an app would declare them, all on the default backend."""

from __future__ import annotations

import asyncio
from typing import Any

from django.tasks import TaskContext, task

from taskqueue.errors import GiveUp, Snooze
from taskqueue.retry import RetryPolicy


class OrderLost(Exception):
    """An error of an app's own."""


@task
def noop(*args: Any, **kwargs: Any) -> None:
    """Takes anything."""


@task
async def noop_async(*args: Any) -> None:
    await asyncio.sleep(0)


@task()
def add(left: int, right: int = 1) -> int:
    return left + right


@task
async def add_async(left: int, right: int) -> int:
    return left + right


@task(priority=7)
def urgent() -> str:
    return "done"


@task
def echo(value: Any) -> Any:
    return value


@task
def as_a_set() -> Any:
    return {1, 2}


@task
def fail(text: str) -> None:
    raise OrderLost(text)


@task
def leave() -> None:
    raise SystemExit(3)


@task
async def fail_async() -> None:
    raise ValueError("async")


@task
def give_up() -> None:
    raise GiveUp("no_such_order", "order 7 was never placed")


@task
def too_early() -> None:
    raise Snooze(60)


@task(takes_context=True)
def attempt(context: TaskContext[..., Any], fail_until: int) -> list[Any]:
    if context.attempt < fail_until:
        raise ValueError(f"attempt {context.attempt}")
    result = context.task_result
    return [context.attempt, result.id, len(result.worker_ids), len(result.errors), result.status]


@task(takes_context=True)
async def attempt_async(context: TaskContext[..., Any]) -> int:
    return context.attempt


def key_of(number: int, **_: Any) -> str:
    return f"order-{number}"


_POLICY = RetryPolicy(base_seconds=5, jitter=0)


@task(max_retries=0, retry_policy=_POLICY, timeout=20, dedupe_key="only one")  # type: ignore[call-overload, untyped-decorator]
def with_options() -> None:
    raise ValueError


@task(dedupe_key=key_of, retry_policy=_POLICY)  # type: ignore[call-overload, untyped-decorator]
def with_key(number: int, **kwargs: Any) -> int:
    return number


@task(max_retries=0)  # type: ignore[call-overload, untyped-decorator]
def fail_once() -> None:
    raise OrderLost("for good")


def no_task() -> None:
    """A function that nobody declared as a task."""
