"""What may be declared as a task, what a task keeps when it is copied, and what the project's checks find."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.tasks import default_task_backend, task, task_backends
from django.tasks.exceptions import InvalidTask
from django.utils import timezone
from pytest_django.fixtures import Settings

from taskqueue.django_backend import QueueTask, TaskQueueBackend
from taskqueue.handlers import register_handler, registry
from taskqueue.retry import RetryPolicy
from tests.support import django_tasks

_BACKEND = "taskqueue.django_backend.TaskQueueBackend"


def test_the_project_uses_this_backend_which_supports_everything() -> None:
    assert isinstance(task_backends["default"], TaskQueueBackend)
    assert default_task_backend.supports_defer
    assert default_task_backend.supports_async_task
    assert default_task_backend.supports_get_result
    assert default_task_backend.supports_priority
    assert isinstance(django_tasks.noop, QueueTask)


def test_a_task_may_still_be_called_as_a_function() -> None:
    assert django_tasks.add.call(2, right=3) == 5
    value: Any = django_tasks.add_async.call(2, 3)
    assert value == 5


async def _acall() -> tuple[Any, Any]:
    return await django_tasks.add.acall(2, 3), await django_tasks.add_async.acall(2, 3)


def test_it_may_be_awaited_too() -> None:
    assert async_to_sync(_acall)() == (5, 5)


@pytest.mark.parametrize("priority", [-100, 0, 100, 5.0])
def test_priorities_between_the_bounds(priority: int) -> None:
    assert django_tasks.noop.using(priority=priority).priority == priority


@pytest.mark.parametrize("priority", [-101, 101, 3.1])
def test_other_priorities_are_refused(priority: int) -> None:
    with pytest.raises(InvalidTask, match="whole number between -100 and 100"):
        django_tasks.noop.using(priority=priority)


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidTask, match="aware"):
        django_tasks.noop.using(run_after=datetime(2030, 1, 1))  # noqa: DTZ001 - what is tested


def test_an_instant_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="run_after"):
        task(run_after=timezone.now())(django_tasks.no_task)  # type: ignore[call-overload]


def test_only_functions_of_a_module_are_tasks() -> None:
    def inner() -> None:
        """Found under no path."""

    for function in (inner, lambda: None):
        with pytest.raises(InvalidTask, match="module level"):
            task(function)


def test_a_task_that_takes_context_says_so_first() -> None:
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(django_tasks.no_task)  # type: ignore[arg-type]


def test_queues_are_those_of_the_settings(settings: Settings) -> None:
    with pytest.raises(InvalidTask, match="Queue 'mail' is not valid"):
        django_tasks.noop.using(queue_name="mail")
    settings.TASKS = {"default": {"BACKEND": _BACKEND, "QUEUES": ["mail"]}}
    assert django_tasks.noop.using(queue_name="mail").queue_name == "mail"
    settings.TASKS = {"default": {"BACKEND": _BACKEND, "QUEUES": []}}
    assert django_tasks.noop.using(queue_name="any").queue_name == "any"
    with pytest.raises(InvalidTask, match="control characters"):
        django_tasks.noop.using(queue_name="a\nb")


def test_options_survive_copies_and_pickling() -> None:
    for copy in (
        django_tasks.with_options.using(priority=3, run_after=timezone.now()),
        pickle.loads(pickle.dumps(django_tasks.with_options)),  # noqa: S301 - our own bytes
        pickle.loads(pickle.dumps(django_tasks.with_options.using(priority=3))),  # noqa: S301
    ):
        assert isinstance(copy, QueueTask)
        assert copy.func is django_tasks.with_options.func
        assert (copy.max_retries, copy.timeout, copy.dedupe_key) == (0, 20, "only one")
        assert copy.retry_policy == RetryPolicy(base_seconds=5, jitter=0)
    with_key = pickle.loads(pickle.dumps(django_tasks.with_key))  # noqa: S301
    assert with_key.dedupe_key is django_tasks.key_of


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_retries", -1),
        ("max_retries", True),
        ("max_retries", 2**31),
        ("retry_policy", 5),
        ("timeout", 0),
        ("timeout", "10"),
        ("dedupe_key", 7),
    ],
)
def test_an_impossible_option_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(InvalidTask, match=option):
        task(**{option: value})(django_tasks.no_task)


def test_a_function_is_a_task_type_with_its_own_handler() -> None:
    handler = registry.handlers["tests.support.django_tasks.with_options"]

    assert handler.timeout_seconds == 20
    assert handler.retry == RetryPolicy(base_seconds=5, jitter=0)
    assert registry.handlers["tests.support.django_tasks.add_async"].is_async
    assert "tests.support.django_tasks.no_task" not in registry.handlers


def test_a_type_that_has_another_handler_is_not_taken_over() -> None:
    register_handler("tests.support.django_tasks.no_task", lambda payload: None)

    with pytest.raises(InvalidTask, match="rename"):
        task(django_tasks.no_task)


def test_a_module_loaded_again_replaces_its_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reloaded_tasks.py").write_text(
        "from django.tasks import task\n\n\n@task\ndef work() -> int:\n    return 1\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_tasks")
    before: Any = registry.handlers["reloaded_tasks.work"].function

    importlib.reload(module)

    after: Any = registry.handlers["reloaded_tasks.work"].function
    assert after.task.func is module.work.func
    assert after.task.func is not before.task.func


def test_checks_name_what_is_wrong(settings: Settings) -> None:
    settings.TASKS = {
        "default": {"BACKEND": _BACKEND, "QUEUES": ["mail", "a\nb"], "OPTIONS": {"MODULE": ["shop.views"]}}
    }

    found = [
        message for message in run_checks() if message.id in ("taskqueue.E004", "taskqueue.E005", "taskqueue.E006")
    ]

    assert sorted(message.id or "" for message in found) == ["taskqueue.E005", "taskqueue.E006"]
    assert "'MODULE'" in found[0].msg and "MODULES" in str(found[0].hint)


def test_checks_find_a_queue_that_is_not_installed(settings: Settings) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if "taskqueue" not in app]

    assert [message.id for message in task_backends["default"].check()] == ["taskqueue.E004"]


def test_a_task_may_be_declared_before_the_apps_are_loaded() -> None:
    """As it is by an app's ``__init__`` or ``models`` module."""
    program = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "xngin_worker.settings"
import sys
from django.tasks import task
import tests.support.django_tasks as declared
assert "taskqueue.models" not in sys.modules
assert declared.add.call(1) == 2
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
