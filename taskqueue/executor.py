"""One attempt: payload, handler, verdict. Runs in a slot's thread and hands the ending on; it never raises."""

import asyncio
import contextvars
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import random
from typing import Any

import structlog
from asgiref.sync import async_to_sync

from taskqueue.errors import InvalidPayload
from taskqueue.handler_connections import HandlerConnections
from taskqueue.handlers import Handler, TaskContext
from taskqueue.outcomes import Ending, HandlerTimeout, Tries, ending_of_error, ending_of_return, unreadable_error
from taskqueue.running import Held, Phase, Running


@dataclass(frozen=True, kw_only=True)
class Executor:
    """``deliver(held, ending)`` takes the ending of an attempt that still counts; ``freed()`` hears of the slot of one
    that does not.
    """

    running: Running
    connections: HandlerConnections
    default_max_retries: int
    deliver: Callable[[Held, Ending], None]
    freed: Callable[[], None]

    def __call__(self, held: Held) -> None:
        if not self.running.begin(held):
            self.running.vacate(held)
            self.freed()
            return
        # A copy, so that what a handler sets (a decimal precision, a language, a key of its log lines) ends with it.
        ending = contextvars.copy_context().run(self._attempt, held)
        if self.running.vacate(held):
            self.deliver(held, ending)
        else:
            self.freed()

    def tries(self, held: Held) -> Tries:
        return Tries(
            retry_count=held.claim.retry_count,
            task_max_retries=held.claim.max_retries,
            policy=held.handler.retry,
            default_max_retries=self.default_max_retries,
            random=random,
        )

    def _attempt(self, held: Held) -> Ending:
        structlog.contextvars.bind_contextvars(task_id=held.claim.id, correlation_id=held.claim.correlation_id)
        try:
            payload = held.handler.parse(_decoded(held))
            try:
                value = _call(held, payload, last_try=not self.tries(held).left)
            finally:
                self.connections.after()
            return ending_of_return(value)
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like are a failed attempt too
            if held.phase is Phase.OVERDUE:
                error = _timeout(held, error)
            return self._judge(error, held)

    def _judge(self, error: BaseException, held: Held) -> Ending:
        try:
            return ending_of_error(error, self.tries(held))
        except BaseException as trouble:  # noqa: BLE001 - the error and its handler's retry policy may do anything
            return unreadable_error(error, trouble, self.tries(held))


def timeout_error(handler: Handler) -> HandlerTimeout:
    return HandlerTimeout(f"the handler did not end within its {handler.timeout_seconds:g} s")


def _timeout(held: Held, cause: BaseException) -> HandlerTimeout:
    error = timeout_error(held.handler)
    error.__cause__ = cause
    return error


def _decoded(held: Held) -> Any:
    text = held.claim.payload
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(held.claim.task_type, [f"payload: Python cannot read this JSON ({error})"]) from error


def _call(held: Held, payload: Any, *, last_try: bool) -> Any:
    claim, handler = held.claim, held.handler
    if not handler.takes_context:
        arguments: tuple[Any, ...] = (payload,)
    else:
        context = TaskContext(
            id=claim.id,
            task_type=claim.task_type,
            attempt=claim.attempt,
            retry_count=claim.retry_count,
            correlation_id=claim.correlation_id,
            deadline=datetime.now(UTC) + timedelta(seconds=handler.timeout_seconds),
            stop=held.stop,
            last_try=last_try,
        )
        arguments = (payload, context)
    if not handler.is_async:
        return handler.function(*arguments)
    return _call_async(held, arguments)


def _call_async(held: Held, arguments: tuple[Any, ...]) -> Any:
    """Run the coroutine so that the ORM inside it uses this thread's connections.

    ``async_to_sync`` sends synchronous parts back to the calling thread. Exceptions travel as values, since an event
    loop lets ``SystemExit`` end itself instead of handing it on.
    """

    async def attempt() -> tuple[Any, BaseException | None]:
        task = asyncio.ensure_future(handler_call())
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            loop.call_soon_threadsafe(task.cancel)

        held.cancel = cancel
        if held.stop.is_set():
            # Told to stop before there was anything to cancel.
            task.cancel()
        try:
            return await task, None
        except BaseException as error:  # noqa: BLE001 - carried out of the loop as a value
            return None, error
        finally:
            held.cancel = None

    async def handler_call() -> Any:
        return await held.handler.function(*arguments)

    value, error = async_to_sync(attempt)()
    if error is not None:
        raise error
    return value
