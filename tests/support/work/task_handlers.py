"""Handlers for tests with real workers: they succeed, fail, sleep, crash, hang and lie."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from django.db import connection

from taskqueue.errors import GiveUp, RetryLater, Snooze
from taskqueue.handlers import TaskContext, handler
from taskqueue.retry import RetryPolicy

FAST = RetryPolicy(base_seconds=0.05, cap_seconds=0.1)


@handler("test.noop")
def noop(payload: Any) -> None:
    """Nothing."""


@handler("test.echo")
def echo(payload: Any, context: TaskContext) -> Any:
    return {"payload": payload, "attempt": context.attempt}


@handler("test.append")
def append(payload: dict[str, Any], context: TaskContext) -> None:
    """Append the task's id and attempt to a file, in one write that no other process can split."""
    line = f"{context.id} {context.attempt}\n".encode()
    descriptor = os.open(payload["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
    time.sleep(float(payload.get("seconds", 0)))


@handler("test.sleep")
def sleep(payload: dict[str, Any], context: TaskContext) -> None:
    if "started" in payload:
        Path(payload["started"]).touch()
    time.sleep(payload["seconds"])


@handler("test.sleep_first")
def sleep_first(payload: dict[str, float], context: TaskContext) -> dict[str, int]:
    """Takes long at the first attempt only."""
    if context.attempt == 1:
        time.sleep(payload["seconds"])
    return {"attempt": context.attempt}


@handler("test.spin")
def spin(payload: dict[str, float]) -> None:
    """Python that computes all the time."""
    end = time.monotonic() + payload["seconds"]
    number = 0
    while time.monotonic() < end:
        number = sum(range(2000)) + number % 7


@handler("test.sleep_async")
async def sleep_async(payload: dict[str, float]) -> None:
    await asyncio.sleep(payload["seconds"])


@handler("test.block_async")
async def block_async(payload: dict[str, float]) -> None:
    """An async handler that blocks its loop."""
    time.sleep(payload["seconds"])  # noqa: ASYNC251 - the fault under test


@handler("test.fail", retry=FAST)
def fail(payload: Any) -> None:
    raise ValueError(f"failed on purpose: {payload}")


@handler("test.fail_slowly", retry=FAST)
def fail_slowly(payload: dict[str, float]) -> None:
    time.sleep(payload["seconds"])
    raise ValueError("failed on purpose, after a while")


@handler("test.sql", retry=FAST)
def run_sql(payload: dict[str, list[str]]) -> Any:
    """Statements over Django's connection, in autocommit as a handler finds it; the last one's rows."""
    with connection.cursor() as cursor:
        for statement in payload["statements"]:
            cursor.execute(statement)
        return [list(row) for row in cursor.fetchall()] if cursor.description else None


@handler("test.leave_open", retry=FAST)
def leave_open(payload: dict[str, str]) -> None:
    """Ends in the middle of a transaction: by an error, or as if all were well."""
    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("SET search_path = nowhere")
        cursor.execute("CREATE TABLE public.left_open ()")
    if "error" in payload:
        raise ValueError(payload["error"])


@handler("test.fail_until", retry=FAST)
def fail_until(payload: dict[str, int], context: TaskContext) -> int:
    if context.attempt < payload["attempt"]:
        raise ValueError(f"attempt {context.attempt} fails on purpose")
    return context.attempt


@handler("test.exit", retry=FAST)
def leave(payload: dict[str, int]) -> None:
    raise SystemExit(payload.get("status", 0))


@handler("test.exit_async", retry=FAST)
async def leave_async(payload: Any) -> None:
    raise SystemExit(0)


@handler("test.interrupt", retry=FAST)
def interrupt(payload: Any) -> None:
    raise KeyboardInterrupt


@handler("test.retry_later")
def retry_later(payload: dict[str, float]) -> None:
    raise RetryLater(after=payload["seconds"], reason="the other side is busy")


@handler("test.snooze")
def snooze(payload: dict[str, float]) -> None:
    raise Snooze(payload["seconds"], reason="too early")


@handler("test.give_up")
def give_up(payload: Any) -> None:
    raise GiveUp("no_such_thing", "it is not there and never will be")


@handler("test.unserialisable", retry=FAST)
def unserialisable(payload: Any) -> object:
    return object()


@handler("test.kill_worker", retry=FAST)
def kill_worker(payload: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@handler("test.hang", timeout=0.5, retry=FAST)
def hang(payload: dict[str, float]) -> None:
    """Never looks at its context."""
    time.sleep(payload["seconds"])


@handler("test.polite", timeout=0.5, retry=FAST)
def polite(payload: dict[str, float], context: TaskContext) -> None:
    """Ends when it is told to."""
    context.stop.wait(payload["seconds"])
    if context.cancelled:
        raise RuntimeError("stopped when told to")


@handler("test.slow_async", timeout=0.5, retry=FAST)
async def slow_async(payload: dict[str, float]) -> None:
    await asyncio.sleep(payload["seconds"])
