"""The backend itself: judges tasks when they are declared and enqueued, and hands the rest to ``rows``."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskResult
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist

from taskqueue.django_backend.queue_task import QueueTask
from taskqueue.django_backend.registration import register
from taskqueue.text import problem_of_name

_OPTIONS = {"MODULES"}


class TaskQueueBackend(BaseTaskBackend):
    task_class = QueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raises ``InvalidTask``. What passes can be run by this process from now on."""
        super().validate_task(task)
        problem = problem_of_name(task.queue_name)
        if problem is not None:
            raise InvalidTask(f"queue_name {problem}")
        if isinstance(task, QueueTask) and (problems := task.problems()):
            raise InvalidTask("; ".join(problems))
        register(task, alias=self.alias, sender=type(self))

    def enqueue[**P, R](self, task: Task[P, R], args: list[Any], kwargs: dict[str, Any]) -> TaskResult[P, R]:
        """Enqueue in the caller's transaction. While a pending task has the ``dedupe_key``, that one's result comes
        back, and ``task_enqueued`` is not sent.

        Raises ``InvalidTask`` for what cannot be stored, and as Django's own backends ``TypeError`` for arguments that
        are not JSON.
        """
        from taskqueue.django_backend import rows

        self.validate_task(task)
        return rows.enqueue(self, task, args, kwargs)

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """Raises ``TaskResultDoesNotExist`` also where the task is none of Django's, or its function is gone."""
        from taskqueue.django_backend import rows

        result = rows.find(result_id, alias=self.alias)
        if result is None:
            raise TaskResultDoesNotExist(result_id)
        return result

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        from django.apps import apps

        found: list[CheckMessage] = []
        if not apps.is_installed("taskqueue"):
            found.append(
                Error(
                    f"TASKS[{self.alias!r}] uses the task queue, which is not installed.",
                    hint="Add 'taskqueue.apps.TaskqueueConfig' and 'pgtrigger' to INSTALLED_APPS.",
                    id="taskqueue.E004",
                )
            )
        found += [
            Error(
                f"TASKS[{self.alias!r}]['OPTIONS'] has an unknown key {key!r}.",
                hint="The known one is 'MODULES': modules with tasks, besides each app's tasks.py.",
                id="taskqueue.E005",
            )
            for key in sorted(set(self.options) - _OPTIONS, key=str)
        ]
        found += [
            Error(
                f"TASKS[{self.alias!r}]['QUEUES'] has a name {name!r} that {problem}.",
                hint="Names of queues are printable texts.",
                id="taskqueue.E006",
            )
            for name in sorted(self.queues, key=str)
            if (problem := problem_of_name(name)) is not None
        ]
        return found
