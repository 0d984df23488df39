"""Saying in a test which task must be there, and being told what is there instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

import pydantic
from django.db.models import Count, Field
from django.tasks.base import Task as DjangoTask

from taskqueue.models import Task

# Tests have few tasks; one that has many is told of the newest.
_LOOKED_AT = 1_000
_SHOWN = 3
_ANYTHING = object()


def assert_enqueued(
    task_type: str | DjangoTask[..., Any], payload: Any = _ANYTHING, *, times: int | None = None, **fields: Any
) -> Task:
    """The newest task of this type with this payload and these fields; raises ``AssertionError`` without one.

    ``fields`` are columns of the table, and ``delay`` (seconds or a timedelta between creation and due time). A value
    may be anything that compares equal, such as ``unittest.mock.ANY``, also inside the payload. ``times`` is how many
    there must be. Tasks count in whatever state they are.
    """
    __tracebackhide__ = True
    wanted = _wanted(payload, fields)
    name = _type_of(task_type)
    tasks = list(Task.objects.filter(task_type=name).order_by("-id")[:_LOOKED_AT])
    compared = [(_differences(wanted, task), task) for task in tasks]
    matching = [task for differences, task in compared if not differences]
    if matching and times in (None, len(matching)):
        return matching[0]
    if matching:
        raise AssertionError(f"{len(matching)} tasks of {name!r} are as wanted, not {times}: {_ids(matching)}")
    raise AssertionError("\n".join(_report(name, compared)))


def assert_not_enqueued(task_type: str | DjangoTask[..., Any], payload: Any = _ANYTHING, **fields: Any) -> None:
    """Raises ``AssertionError`` naming the tasks that are as described."""
    __tracebackhide__ = True
    wanted = _wanted(payload, fields)
    name = _type_of(task_type)
    found = [t for t in Task.objects.filter(task_type=name).order_by("-id")[:_LOOKED_AT] if not _differences(wanted, t)]
    if found:
        raise AssertionError(f"{len(found)} tasks of {name!r} are there: {_ids(found)}")


def _type_of(task_type: str | DjangoTask[..., Any]) -> str:
    return task_type.module_path if isinstance(task_type, DjangoTask) else task_type


def _wanted(payload: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in Task._meta.get_fields() if isinstance(field, Field)} | {"delay"}
    for name in fields:
        if name not in known:
            nearest = get_close_matches(name, sorted(known), n=1, cutoff=0.0)[0]
            raise TypeError(f"a task has no field {name!r}; did you mean {nearest!r}?")
    wanted = dict(fields)
    if payload is not _ANYTHING:
        wanted["payload"] = payload.model_dump(mode="json") if isinstance(payload, pydantic.BaseModel) else payload
    if isinstance(wanted.get("delay"), int | float):
        wanted["delay"] = timedelta(seconds=wanted["delay"])
    return wanted


def _differences(wanted: Mapping[str, Any], task: Task) -> list[str]:
    found: list[str] = []
    for name, value in wanted.items():
        if name != "delay":
            found += _compare(name, value, getattr(task, name))
            continue
        delay = task.embargo_until - task.created_at
        # What computed its own due time read another clock than the row's.
        near = isinstance(value, timedelta) and abs(value - delay) <= timedelta(seconds=1)
        found += [] if near else _compare(name, value, delay)
    return found


def _compare(path: str, wanted: Any, actual: Any) -> list[str]:
    if wanted == actual:
        return []
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        found = [f"{path}.{key}: missing, wanted {wanted[key]!r}" for key in wanted if key not in actual]
        found += [f"{path}.{key}: not wanted, is {actual[key]!r}" for key in actual if key not in wanted]
        return found + [
            line for key in wanted if key in actual for line in _compare(f"{path}.{key}", wanted[key], actual[key])
        ]
    if _is_list(wanted) and _is_list(actual) and len(wanted) == len(actual):
        pairs = enumerate(zip(wanted, actual, strict=True))
        return [line for place, (one, other) in pairs for line in _compare(f"{path}[{place}]", one, other)]
    return [f"{path}: wanted {wanted!r}, is {actual!r}"]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _report(name: str, compared: Sequence[tuple[list[str], Task]]) -> list[str]:
    if not compared:
        return _report_of_others(name)
    nearest = sorted(compared, key=lambda pair: len(pair[0]))[:_SHOWN]
    lines = [f"no task of {name!r} is as wanted; the nearest of {len(compared)}:"]
    for differences, task in nearest:
        lines.append(f"  {task.id} ({task.status}, queue {task.queue!r}, payload {task.payload!r})")
        lines += [f"    {difference}" for difference in differences]
    return lines


def _report_of_others(name: str) -> list[str]:
    newest = Task.objects.order_by("-id").values("id")[:_LOOKED_AT]
    others = (
        Task.objects.filter(id__in=newest).values_list("task_type").annotate(tasks=Count("id")).order_by("task_type")
    )
    counts = dict(others)
    if not counts:
        return [f"no task of {name!r}, and of no other type either"]
    lines = [f"no task of {name!r}; there are:", *(f"  {count} of {other!r}" for other, count in counts.items())]
    nearest = get_close_matches(name, list(counts), n=1)
    return [*lines, f"did you mean {nearest[0]!r}?"] if nearest else lines


def _ids(tasks: Sequence[Task]) -> str:
    return ", ".join(task.id for task in tasks[:10])
