"""The links beside the list of tasks. What they choose is read by ``selection``; here they are only offered."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest

from taskqueue.admin.known_lanes import KnownLanes, known_lanes
from taskqueue.admin.selection import STATES

_LONGEST_NAME = 60


class _Offered(SimpleListFilter):
    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> None:
        """Nothing: the list takes its tasks from ``Selection``."""

    def has_output(self) -> bool:
        return True


class StateFilter(_Offered):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(word, words[0]) for word, words in STATES.items()]


class TypeFilter(_Offered):
    title = "type"
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return _choices(_lanes(request).task_types, self.used_parameters.get("type"))


class QueueFilter(_Offered):
    title = "queue"
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return _choices(_lanes(request).queues, self.used_parameters.get("queue"))


class BeforeFilter(_Offered):
    """Where the list begins, when somebody went further back; a link leads to the newest again."""

    title = "age"
    parameter_name = "before"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        before = self.used_parameters.get("before")
        return [] if before is None else [(str(before), f"before {_short(str(before))}")]

    def has_output(self) -> bool:
        return self.value() is not None


def _lanes(request: HttpRequest) -> KnownLanes:
    """Read once for the two filters of a page."""
    lanes: KnownLanes | None = getattr(request, "_known_lanes", None)
    if lanes is None:
        lanes = known_lanes()
        request._known_lanes = lanes  # type: ignore[attr-defined]
    return lanes


def _choices(names: tuple[str, ...], chosen: object) -> list[tuple[str, str]]:
    """The chosen name is offered even when it is known from nowhere but the address."""
    offered = sorted({*names, str(chosen)}) if chosen is not None else list(names)
    return [(name, _short(name)) for name in offered]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
