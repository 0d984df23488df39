"""What people may do to tasks: which moves there are, who may make them, and how ``operations`` is asked for them.

Nothing here judges a state: the statements do, under the row's lock. A selection of any size is moved in the caller's
request, so it ends after ``MOST_AT_ONCE`` tasks and says that there are more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from taskqueue import lifecycle, operations
from taskqueue.admin.selection import Selection
from taskqueue.lifecycle import Event, Refusal, Status
from taskqueue.models import Task, TaskTransition
from taskqueue.operations import MoveReport

if TYPE_CHECKING:
    from django.db.models import QuerySet

MOST_AT_ONCE = 50_000
MOST_COPIES = 10_000
ALREADY_RESUBMITTED = "already_resubmitted"


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A move as it is offered. ``warning`` is said before it is done; ``done`` completes "12 tasks …"."""

    name: str
    label: str
    done: str
    sources: tuple[Status, ...]
    operation: Callable[..., MoveReport] = field(repr=False)
    warning: str = ""
    asks_reason: bool = False

    @property
    def asks(self) -> bool:
        return bool(self.warning)

    def allowed_to(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"{Task._meta.app_label}.{self.name}_task")

    def possible_for(self, task: Task) -> bool:
        return task.status in self.sources


def _sources(event: Event) -> tuple[Status, ...]:
    return lifecycle.move_for(event).sources


OFFERS: tuple[Offer, ...] = (
    Offer(
        name="retry",
        label="Retry",
        done="retried",
        sources=_sources(Event.RETRY),
        operation=operations.retry,
    ),
    Offer(
        name="run_now",
        label="Run now",
        done="made due now",
        sources=_sources(Event.RUN_NOW),
        operation=operations.run_now,
    ),
    Offer(
        name="resubmit",
        label="Resubmit",
        done="resubmitted",
        sources=tuple(sorted(lifecycle.FINAL)),
        operation=operations.resubmit,
        warning="A new task is made of each, with the same payload and a new id. Webhooks that it sends carry the new "
        "id, so a receiver takes them for new events, not for repetitions. The old tasks stay as they are.",
    ),
    Offer(
        name="dead_letter",
        label="Dead-letter",
        done="dead-lettered",
        sources=_sources(Event.DEAD_LETTER),
        operation=operations.dead_letter,
        warning="Tasks that are set aside never run again, and cannot be taken back into the queue.",
        asks_reason=True,
    ),
)
BY_NAME = MappingProxyType({offer.name: offer for offer in OFFERS})


@dataclass(frozen=True, kw_only=True)
class Request:
    """One asked-for move. ``asked_at``: when the person saw the page on which it was asked, by the database's clock."""

    offer: Offer
    actor: str
    reason: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """``more``: tasks of the selection are left that this request did not come to."""

    moved: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    ids: tuple[str, ...] = ()
    more: bool = False


def move_chosen(request: Request, ids: Sequence[str]) -> Result:
    """Move exactly these tasks, whatever list they were ticked in: another person may have moved them meanwhile."""
    result = _ask(request, Task.objects.filter(id__in=ids))
    missing = len(set(ids)) - result.moved - result.refused.total()
    if missing > 0:
        result.refused[Refusal.NOT_FOUND.value] += missing
    return result


def move_all(request: Request, selection: Selection) -> Result:
    """Move every task of the selection that is in a state which the move starts from; others are left alone."""
    room = MOST_COPIES if request.offer.name == "resubmit" else MOST_AT_ONCE
    results: list[Result] = []
    for tasks in _by_state(request.offer, selection):
        if room <= 0:
            return _sum(results, more=True)
        last = tasks.order_by("id").values_list("id", flat=True)[room - 1 : room].first()
        results.append(_ask(request, tasks if last is None else tasks.filter(id__lte=last)))
        if last is not None and tasks.filter(id__gt=last).exists():
            return _sum(results, more=True)
        room -= results[-1].moved + results[-1].refused.total()
    return _sum(results, more=False)


def refusal(offer: Offer, task: Task) -> Result:
    """What ``operations`` would say to a task that cannot make the move, without asking it."""
    decision = lifecycle.can_transition(task.status, offer.name)
    code = decision.refusal if offer.name != "resubmit" and decision.refusal else Refusal.INVALID_TRANSITION
    return Result(refused=Counter({code.value: 1}))


def count_all(offer: Offer, selection: Selection, most: int) -> dict[Status, int]:
    """How many tasks of the selection are in each state that the move starts from; counting ends behind ``most``."""
    return {
        status: tasks.values("pk")[: most + 1].count()
        for status, tasks in zip(offer.sources, _by_state(offer, selection), strict=True)
    }


def _by_state(offer: Offer, selection: Selection) -> Iterator["QuerySet[Task]"]:
    """One query a state, since each state has its own index."""
    for status in offer.sources:
        yield selection.tasks(status).order_by("-id")


def _ask(request: Request, tasks: "QuerySet[Task]") -> Result:
    if request.offer.name == "resubmit":
        return _resubmit_once(request, tasks)
    return _result(request.offer.operation(tasks, actor=request.actor, reason=request.reason))


def _resubmit_once(request: Request, tasks: "QuerySet[Task]") -> Result:
    """Leave out what was resubmitted since the page was shown: a form that is sent twice makes one copy, not two."""
    with transaction.atomic():
        ids = list(tasks.order_by("id").values_list("id", flat=True))
        # The second of two requests waits here, and then sees what the first recorded.
        locked = list(Task.objects.filter(id__in=ids).order_by("id").select_for_update().values_list("id", flat=True))
        done = TaskTransition.objects.filter(task_id__in=locked, event="resubmit", at__gt=request.asked_at)
        again = set(done.values_list("task_id", flat=True))
        left = [task_id for task_id in locked if task_id not in again]
        report = request.offer.operation(Task.objects.filter(id__in=left), actor=request.actor, reason=request.reason)
    result = _result(report)
    if again:
        result.refused[ALREADY_RESUBMITTED] += len(again)
    return result


def _result(report: MoveReport) -> Result:
    return Result(moved=report.moved, refused=Counter(report.refused), ids=report.ids)


def _sum(results: Iterable[Result], *, more: bool) -> Result:
    moved = 0
    refused: Counter[str] = Counter()
    ids: list[str] = []
    for result in results:
        moved += result.moved
        refused += result.refused
        ids += result.ids
    return Result(moved=moved, refused=refused, ids=tuple(ids), more=more)


def states_of(ids: Iterable[str]) -> Counter[str]:
    """The labels of the states in which these tasks are now."""
    rows: Any = Task.objects.filter(id__in=list(ids)).only("status", "retry_count", "embargo_until")
    now = timezone.now()
    return Counter(lifecycle.state_view(task, now).label for task in rows)
