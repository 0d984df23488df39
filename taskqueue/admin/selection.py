"""Which tasks a list shows: read from the address, turned into querysets that an index serves.

A list always walks an index in the order of ids, newest first. What no index serves (a type, a queue, a sub-state,
success) is looked for among the newest ``WINDOW`` rows of that walk only; ``before`` moves the window further back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from django.db.models import Q

from taskqueue.ids import DatabaseNow
from taskqueue.lifecycle import Status
from taskqueue.models import Task

if TYPE_CHECKING:
    from django.db.models import QuerySet

WINDOW = 100_000
PARAMETERS = ("state", "type", "queue", "before")
# Sorts behind every text that begins as the one it is put behind.
_BEHIND = "\U0010ffff"
_PENDING = Q(status=Status.PENDING.value)
_FRESH = Q(retry_count=0)

# Words of the filter, in the order shown: the walk and what is looked for along it.
STATES: Mapping[str, tuple[str, Q, Q]] = {
    "pending": ("pending, all", _PENDING, Q()),
    "due": ("· due", _PENDING, _FRESH & Q(embargo_until__lte=DatabaseNow())),
    "scheduled": ("· scheduled", _PENDING, _FRESH & Q(embargo_until__gt=DatabaseNow())),
    "retrying": ("· retrying", _PENDING, Q(retry_count__gt=0)),
    "running": ("running", Q(status=Status.RUNNING.value), Q()),
    "success": ("success", Q(), Q(status=Status.SUCCESS.value)),
    "dead": ("dead", Q(status=Status.DEAD.value), Q()),
    "dead_lettered": ("dead-lettered", Q(status=Status.DEAD_LETTERED.value), Q()),
}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """``search`` finds an id or its beginning, a correlation id, or the dedupe key of a pending task."""

    state: str | None = None
    task_type: str | None = None
    queue: str | None = None
    before: str | None = None
    search: str = ""

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> "Selection":
        given = {name: parameters.get(name) for name in PARAMETERS}
        return cls(
            state=given["state"],
            task_type=given["type"],
            queue=given["queue"],
            before=given["before"],
            search=parameters.get("q", "").strip(),
        )

    @property
    def narrows(self) -> bool:
        """Whether it is less than the whole table."""
        return any((self.state, self.task_type, self.queue, self.before, self.search))

    def tasks(self, status: Status | None = None) -> "QuerySet[Task]":
        """All tasks of the selection, or those of them in ``status``: for moves, which walk everything once."""
        chosen = Task.objects.filter(self._walk & self._looked_for)
        return chosen if status is None else chosen.filter(status=status.value)

    def shown(self) -> "QuerySet[Task]":
        """The tasks that the list shows."""
        shown = self.tasks()
        return shown if self.floor is None else shown.filter(id__gte=self.floor)

    @cached_property
    def floor(self) -> str | None:
        """The last id of the window, when there is more behind it."""
        if not self._looked_for or not self._is_walk:
            return None
        walk = Task.objects.filter(self._walk).order_by("-id")
        return walk.values_list("id", flat=True)[WINDOW - 1 : WINDOW].first()

    @property
    def _is_walk(self) -> bool:
        """An index leads right to the tasks of a correlation id, and to the pending ones of one type."""
        one_type = self.task_type is not None and STATES.get(self.state or "", ("", Q(), Q()))[1] == _PENDING
        return not one_type and self._found in (None, {"id"})

    @cached_property
    def _walk(self) -> Q:
        walk = Q()
        if not self._readable or (self.state is not None and self.state not in STATES):
            return Q(pk__in=[])
        if self.state is not None:
            walk &= STATES[self.state][1]
        if self.before is not None:
            walk &= Q(id__lt=self.before)
        if self._found is not None:
            walk &= self._search
        return walk

    @cached_property
    def _looked_for(self) -> Q:
        looked_for = Q()
        if self.state is not None and self.state in STATES:
            looked_for &= STATES[self.state][2]
        if self.task_type is not None:
            looked_for &= Q(task_type=self.task_type)
        if self.queue is not None:
            looked_for &= Q(queue=self.queue)
        return looked_for if self._readable else Q()

    @property
    def _readable(self) -> bool:
        """PostgreSQL has no text with NUL, so nothing can match one."""
        return "\x00" not in f"{self.task_type}{self.queue}{self.before}{self.search}"

    @cached_property
    def _kinds(self) -> Mapping[str, Q]:
        return {
            "id": Q(id__gte=self.search, id__lt=self.search + _BEHIND),
            "correlation id": Q(correlation_id=self.search),
            "dedupe key": _PENDING & Q(dedupe_key=self.search),
        }

    @cached_property
    def _found(self) -> set[str] | None:
        """As what the search was found. One probe each: an OR of all three would be served by no index."""
        if not self.search or not self._readable:
            return None
        return {kind for kind, condition in self._kinds.items() if Task.objects.filter(condition).exists()}

    @property
    def _search(self) -> Q:
        found = [Task.objects.filter(self._kinds[kind]).values("id") for kind in sorted(self._found or ())]
        if not found:
            return Q(pk__in=[])
        if len(found) == 1:
            return self._kinds[next(iter(self._found or ()))]
        return Q(id__in=found[0].union(*found[1:]))
