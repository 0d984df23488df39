"""Django's tasks as handlers: each function is a task type of its own, named by its path."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import iscoroutinefunction
from typing import Any

from django.apps import apps
from django.tasks import task_backends
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task
from django.tasks.exceptions import InvalidTask
from django.utils.module_loading import module_has_submodule

from taskqueue.django_backend.call import CALL, Call
from taskqueue.django_backend.queue_task import QueueTask
from taskqueue.django_backend.run import AsyncRun, Run
from taskqueue.handlers import DEFAULT_TIMEOUT_SECONDS, Handler, Registry, registry
from taskqueue.retry import RetryPolicy
from taskqueue.text import problem_of_name


def register(task: Task[..., Any], *, alias: str, sender: type[BaseTaskBackend], into: Registry = registry) -> None:
    """Make the task's function the handler of the type that its path names.

    A module that is loaded again replaces its functions. Raises ``InvalidTask`` where the type is somebody else's.
    """
    path = task.module_path
    problem = problem_of_name(path)
    if problem is not None:
        raise InvalidTask(f"The path of the task's function {problem}.")
    known = into.get(path)
    if known is not None and not isinstance(known.function, Run):
        raise InvalidTask(f"The task type {path!r} has a handler that is no task of Django's; rename one of them.")
    retry = (task.retry_policy if isinstance(task, QueueTask) else None) or RetryPolicy()
    timeout = (task.timeout if isinstance(task, QueueTask) else None) or DEFAULT_TIMEOUT_SECONDS
    if known is not None:
        run: Any = known.function
        if (run.task.func, run.sender, known.retry, known.timeout_seconds) == (task.func, sender, retry, timeout):
            return
        into.remove(path)
    is_async = iscoroutinefunction(task.func)
    into.add(
        Handler(
            task_type=path,
            function=(AsyncRun if is_async else Run)(task=task, alias=alias, sender=sender),
            payload=Call,
            retry=retry,
            timeout_seconds=float(timeout),
            queue=task.queue_name,
            is_async=is_async,
            adapter=CALL,
        )
    )


def modules() -> Iterator[str]:
    """The modules whose tasks this process must know: ``tasks`` of each app, and ``OPTIONS["MODULES"]``.

    None where no backend of the project is this queue's.
    """
    from taskqueue.django_backend.backend import TaskQueueBackend

    ours = [backend for backend in task_backends.all() if isinstance(backend, TaskQueueBackend)]
    if not ours:
        return
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "tasks"):
            yield f"{app.name}.tasks"
    for backend in ours:
        yield from backend.options.get("MODULES", ())
