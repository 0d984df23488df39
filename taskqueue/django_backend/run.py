"""Running the function of one of Django's tasks, with Django's context and signals around it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
from django.tasks.signals import task_finished, task_started
from django.utils.json import normalize_json

from taskqueue import handlers
from taskqueue.django_backend.call import Call
from taskqueue.errors import GiveUp, InvalidPayload, Snooze
from taskqueue.text import class_path, storable_json, traceback_of


@dataclass(frozen=True, kw_only=True)
class Run:
    """The handler of one function. ``sender`` is the backend's class, by which receivers of signals tell them apart."""

    task: Task[..., Any]
    alias: str
    sender: type[BaseTaskBackend]

    def __call__(self, call: Call, context: handlers.TaskContext) -> Any:
        result = self._start(context)
        try:
            value = _stored(self.task.func(*self._arguments(call, result), **call.kwargs), result)
        except BaseException as error:
            self._failed(error, result, context)
            raise
        self._succeeded(value, result)
        return value

    def _arguments(self, call: Call, result: TaskResult[..., Any]) -> list[Any]:
        return [TaskContext(task_result=result), *call.args] if self.task.takes_context else call.args

    def _start(self, context: handlers.TaskContext) -> TaskResult[..., Any]:
        from taskqueue.django_backend import rows

        result = rows.of_attempt(self, context)
        # Receivers that raise are logged by Django; they are not the task's failure.
        task_started.send_robust(sender=self.sender, task_result=result)
        return result

    def _succeeded(self, value: dict[str, Any], result: TaskResult[..., Any]) -> None:
        _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=datetime.now(UTC))
        _set(result, _return_value=value["return_value"])
        task_finished.send_robust(sender=self.sender, task_result=result)

    def _failed(self, error: BaseException, result: TaskResult[..., Any], context: handlers.TaskContext) -> None:
        """Nothing has finished while another try follows."""
        if not _final(error, context):
            return
        result.errors.append(TaskError(exception_class_path=class_path(error), traceback=traceback_of(error)))
        _set(result, status=TaskResultStatus.FAILED, finished_at=datetime.now(UTC))
        task_finished.send_robust(sender=self.sender, task_result=result)


class AsyncRun(Run):
    # Another signature than that of ``Run``, which the executor tells apart by ``Handler.is_async``.
    async def __call__(self, call: Call, context: handlers.TaskContext) -> Any:
        result = await sync_to_async(self._start)(context)
        try:
            value = _stored(await self.task.func(*self._arguments(call, result), **call.kwargs), result)
        except BaseException as error:
            await sync_to_async(self._failed)(error, result, context)
            raise
        await sync_to_async(self._succeeded)(value, result)
        return value


def _stored(value: Any, result: TaskResult[..., Any]) -> dict[str, Any]:
    """What ``tasks.result`` holds. The worker is part of it, since the row forgets who ran a task that succeeded."""
    stored = {"return_value": normalize_json(value), "worker_id": result.worker_ids[-1]}
    # Now, so that receivers of the signal do not hear of a success that cannot be stored.
    storable_json(stored)
    return stored


def _final(error: BaseException, context: handlers.TaskContext) -> bool:
    if isinstance(error, GiveUp | InvalidPayload):
        return True
    if isinstance(error, Snooze | KeyboardInterrupt):
        return False
    if isinstance(error, asyncio.CancelledError) and datetime.now(UTC) < context.deadline:
        # The worker stops and gives the task back.
        return False
    return context.last_try


def _set(result: TaskResult[..., Any], **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)
