"""Tasks in the admin: a list that stays quick at millions of rows, a page to read, and the moves people may make."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from taskqueue.admin import moves, task_page
from taskqueue.admin.bounded import BoundedList, steady_plans
from taskqueue.admin.move_pages import MovePages
from taskqueue.admin.read_only import ReadOnly
from taskqueue.admin.task_list import TaskColumns
from taskqueue.models import Task


@admin.register(Task)
class TaskAdmin(MovePages, TaskColumns, task_page.TaskFields, ReadOnly, BoundedList):
    class Media:
        css = {"all": ["taskqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Task]":
        return Task.objects.defer("payload", "result")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if "\x00" in object_id:
            return None
        return task_page.with_texts(Task.objects.all()).filter(pk=object_id).first()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        task = Task.objects.defer("payload", "result").filter(pk=unquote(object_id).replace("\x00", "")).first()
        context: dict[str, Any] = {**(extra_context or {}), "title": "Task"}
        if task is not None and request.method == "GET" and self.has_view_permission(request, task):
            with steady_plans():
                attempts, more_attempts = task_page.attempts_of(task)
                transitions, more_transitions = task_page.transitions_of(task)
            context |= {
                "attempts": attempts,
                "more_attempts": more_attempts,
                "transitions": transitions,
                "more_transitions": more_transitions,
                "offers": [o for o in moves.OFFERS if o.possible_for(task) and o.allowed_to(request)],
            }
        response: HttpResponseBase = super().change_view(request, object_id, form_url, context)
        return response
