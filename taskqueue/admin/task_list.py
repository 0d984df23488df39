"""The list of tasks: its columns, and the change list that takes its rows from a ``Selection``."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.bounded import BoundedPaginator
from taskqueue.admin.filters import BeforeFilter, QueueFilter, StateFilter, TypeFilter
from taskqueue.admin.model_admin import AnyModelAdmin
from taskqueue.admin.selection import PARAMETERS, WINDOW, Selection
from taskqueue.models import Task

# What a secret needs to be recognised by is longer than what is shown.
_REMARK = 1_000
SHOWN = (
    "id",
    "task_type",
    "status",
    "embargo_until",
    "retry_count",
    "created_at",
    "queue",
    "priority",
    "attempt",
    "finished_at",
    "error_code",
)


@dataclass(frozen=True, kw_only=True)
class Further:
    """A way on for a list that does not show everything, and why it ends where it does."""

    note: str
    address: str


class TaskChangeList(ChangeList):
    selection: Selection

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "QuerySet[Any]":
        super().get_queryset(request, exclude_parameters)
        self.selection = Selection.from_parameters(request.GET.dict())
        return self.selection.shown().only(*SHOWN).annotate(note=Left("message", _REMARK)).order_by("-id")

    @property
    def further(self) -> Further | None:
        """Behind the window, or behind the last page that can be turned to."""
        if self.selection.floor is not None:
            note = f"Looked for among the newest {WINDOW:,} tasks of this list only."
            return Further(note=note, address=self.get_query_string({"before": self.selection.floor}))
        paginator: BoundedPaginator = self.paginator
        if paginator.is_cut and self.page_num == paginator.num_pages and self.result_list:
            last = list(self.result_list)[-1]
            return Further(note="There are more.", address=self.get_query_string({"before": last.pk}))
        return None


class TaskColumns(AnyModelAdmin):
    """Columns and filters of the list. Newest first is the only order: no other has an index."""

    list_display = ("task", "state", "kind", "remark", "created", "ends")
    list_display_links = ("task",)
    list_filter = (StateFilter, TypeFilter, QueueFilter, BeforeFilter)
    list_select_related = False
    sortable_by = ()
    ordering = ("-id",)
    search_fields = ("id",)
    search_help_text = (
        "An id or its beginning, a correlation id, or the dedupe key of a pending task. Exact, capitals matter."
    )
    show_facets = admin.ShowFacets.NEVER

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """No column of the table may be searched by writing its name into the address."""
        return lookup in PARAMETERS

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[TaskChangeList]:
        return TaskChangeList

    @admin.display(description="task")
    def task(self, task: Task) -> SafeString:
        return display.foreign(task.id, 100)

    @admin.display(description="state")
    def state(self, task: Task) -> SafeString:
        tries = f"attempt {task.attempt}" if task.attempt else ""
        return format_html('{} <div class="tq-quiet tq-nowrap">{}</div>', display.state(task), tries)

    @admin.display(description="type and queue")
    def kind(self, task: Task) -> SafeString:
        queue = display.foreign(task.queue, 60)
        return format_html('{}<div class="tq-quiet">{}</div>', display.foreign(task.task_type, 100), queue)

    @admin.display(description="last error or remark")
    def remark(self, task: Any) -> SafeString:
        return display.foreign(task.note, 120)

    @admin.display(description="created")
    def created(self, task: Task) -> SafeString:
        return display.instant(task.created_at)

    @admin.display(description="finished, or due")
    def ends(self, task: Task) -> SafeString:
        return display.instant(task.finished_at or task.embargo_until)
