"""The page of one task: its row in groups, its attempts and moves, and where it came from and led to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import F, Q, TextField
from django.db.models.functions import Cast, Left, Length
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.json_text import LARGEST_READ
from taskqueue.admin.model_admin import AnyModelAdmin
from taskqueue.lifecycle import Status
from taskqueue.models import QueueControl, Task, TaskAttempt, TaskTransition

if TYPE_CHECKING:
    from django.db.models import QuerySet

MOST_ATTEMPTS = 25
MOST_TRANSITIONS = 50
MOST_COPIES = 10
# Whole tracebacks for the newest attempts; the older ones are mostly the same.
_WHOLE_TRACEBACKS = 5
_TRACEBACK = 16_000
_SHORT_TRACEBACK = 2_000


_GROUPS: tuple[tuple[str | None, tuple[tuple[str, ...], ...]], ...] = (
    (
        None,
        (
            ("shown_state", "shown_type", "shown_queue", "priority"),
            ("pauses",),
            ("shown_error_code",),
            ("shown_message",),
        ),
    ),
    (
        "Attempts and times",
        (
            ("counts",),
            ("shown_created", "shown_due", "shown_started", "shown_finished", "shown_updated"),
            ("shown_worker", "shown_lease"),
        ),
    ),
    ("Belongs to", (("shown_correlation", "shown_dedupe_key", "shown_origin", "shown_copies"),)),
    ("Payload", (("shown_payload",),)),
    ("Result", (("shown_result",),)),
)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A row of the table of attempts."""

    row: TaskAttempt
    message: SafeString
    traceback: SafeString | None
    took: str


def with_texts(tasks: "QuerySet[Task]") -> "QuerySet[Any]":
    """Payload and result as text, no more of them than a page can use: Python cannot read every JSON value."""
    columns: dict[str, Any] = {}
    for name in ("payload", "result"):
        text = Cast(F(name), TextField())
        columns[f"{name}_text"] = Left(text, LARGEST_READ)
        columns[f"{name}_length"] = Length(text)
    return tasks.defer("payload", "result").annotate(**columns)


def attempts_of(task: Task) -> tuple[list[Attempt], bool]:
    """The newest attempts that did not succeed, and whether there are more."""
    rows = list(TaskAttempt.objects.filter(task_id=task.pk).order_by("-attempt")[: MOST_ATTEMPTS + 1])
    shown = [
        Attempt(
            row=row,
            message=display.block(row.message),
            traceback=display.block(row.traceback, _TRACEBACK if place < _WHOLE_TRACEBACKS else _SHORT_TRACEBACK)
            if row.traceback
            else None,
            took=display.span(row.finished_at - row.started_at),
        )
        for place, row in enumerate(rows[:MOST_ATTEMPTS])
    ]
    return shown, len(rows) > MOST_ATTEMPTS


def transitions_of(task: Task) -> tuple[list[TaskTransition], bool]:
    rows = list(TaskTransition.objects.filter(task_id=task.pk).order_by("-id")[: MOST_TRANSITIONS + 1])
    return rows[:MOST_TRANSITIONS], len(rows) > MOST_TRANSITIONS


class TaskFields(AnyModelAdmin):
    """The groups of the page. What has nothing to say is left out."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        running = obj.status == Status.RUNNING
        final = obj.status not in (Status.PENDING, Status.RUNNING)
        wanted = {
            "pauses": obj.status == Status.PENDING and bool(_pauses(obj)),
            "shown_error_code": bool(obj.error_code),
            "shown_message": bool(obj.message),
            "shown_due": obj.status == Status.PENDING,
            "shown_started": obj.started_at is not None,
            "shown_finished": final,
            "shown_worker": running,
            "shown_lease": running,
            "shown_dedupe_key": obj.dedupe_key is not None,
            "shown_origin": obj.origin_id is not None,
            "shown_copies": final,
            "shown_result": obj.result_text is not None,
        }
        groups = [
            (title, [tuple(name for name in line if wanted.get(name, True)) for line in lines])
            for title, lines in _GROUPS
        ]
        return [(title, {"fields": [line for line in lines if line]}) for title, lines in groups if any(lines)]

    @admin.display(description="state")
    def shown_state(self, task: Task) -> SafeString:
        return display.state(task)

    @admin.display(description="paused")
    def pauses(self, task: Task) -> SafeString:
        return format_html_join(
            SafeString("<br>"),
            "{} {} since {} by {} {}",
            (
                (
                    pause.get_kind_display(),
                    display.foreign(pause.name),
                    display.instant(pause.since),
                    display.foreign(pause.paused_by),
                    display.foreign(pause.reason) if pause.reason else "",
                )
                for pause in _pauses(task)
            ),
        )

    @admin.display(description="error code")
    def shown_error_code(self, task: Task) -> SafeString:
        return display.foreign(task.error_code)

    @admin.display(description="message")
    def shown_message(self, task: Task) -> SafeString:
        return display.block(task.message)

    @admin.display(description="type")
    def shown_type(self, task: Task) -> SafeString:
        return display.list_link(task.task_type, type=task.task_type)

    @admin.display(description="queue")
    def shown_queue(self, task: Task) -> SafeString:
        return display.list_link(task.queue, queue=task.queue)

    @admin.display(description="counts")
    def counts(self, task: Task) -> str:
        most = "as its handler says" if task.max_retries is None else str(task.max_retries)
        lost = f", workers lost: {task.lost_count}" if task.lost_count else ""
        return f"claims: {task.attempt}, retries used: {task.retry_count} (at most: {most}){lost}"

    @admin.display(description="created")
    def shown_created(self, task: Task) -> SafeString:
        return display.instant(task.created_at)

    @admin.display(description="due")
    def shown_due(self, task: Task) -> SafeString:
        return display.instant(task.embargo_until)

    @admin.display(description="last started")
    def shown_started(self, task: Task) -> SafeString:
        return display.instant(task.started_at)

    @admin.display(description="finished")
    def shown_finished(self, task: Task) -> SafeString:
        return display.instant(task.finished_at)

    @admin.display(description="updated")
    def shown_updated(self, task: Task) -> SafeString:
        return display.instant(task.updated_at)

    @admin.display(description="worker")
    def shown_worker(self, task: Task) -> SafeString:
        return display.foreign(task.worker_id)

    @admin.display(description="lease until")
    def shown_lease(self, task: Task) -> SafeString:
        return display.instant(task.lease_until)

    @admin.display(description="correlation id")
    def shown_correlation(self, task: Task) -> SafeString:
        return display.list_link(task.correlation_id, q=task.correlation_id)

    @admin.display(description="dedupe key")
    def shown_dedupe_key(self, task: Task) -> SafeString:
        return display.foreign(task.dedupe_key, 1_000)

    @admin.display(description="resubmits")
    def shown_origin(self, task: Task) -> SafeString:
        return display.task_link(str(task.origin_id))

    @admin.display(description="resubmitted as")
    def shown_copies(self, task: Task) -> SafeString:
        # Copies have the correlation id of their origin, and that has an index.
        copies = Task.objects.filter(correlation_id=task.correlation_id, origin_id=task.pk).order_by("-id")
        ids = list(copies.values_list("id", flat=True)[: MOST_COPIES + 1])
        if not ids:
            return display.NOTHING
        links = [(display.task_link(copy),) for copy in ids[:MOST_COPIES]]
        return format_html_join(SafeString("<br>"), "{}", links + [("… and older ones",)] * (len(ids) > MOST_COPIES))

    @admin.display(description="payload")
    def shown_payload(self, task: Any) -> SafeString:
        return display.json_block(task.payload_text, task.payload_length)

    @admin.display(description="result")
    def shown_result(self, task: Any) -> SafeString:
        return display.json_block(task.result_text, task.result_length)


def _pauses(task: Any) -> list[QueueControl]:
    """Why a pending task is not claimed, read once for the page."""
    if not hasattr(task, "_pauses"):
        of_queue = Q(kind=QueueControl.Kind.QUEUE, name=task.queue)
        of_type = Q(kind=QueueControl.Kind.TASK_TYPE, name=task.task_type)
        task._pauses = list(QueueControl.objects.filter(of_queue | of_type).order_by("kind"))
    pauses: list[QueueControl] = task._pauses
    return pauses
