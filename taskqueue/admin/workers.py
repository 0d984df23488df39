"""Workers as they last described themselves, to be read only."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.read_only import ReadOnly
from taskqueue.ids import DatabaseNow
from taskqueue.lifecycle import Tone
from taskqueue.models import Worker

# Several beats; the queue itself judges by leases, this only colours the list.
SILENT_AFTER = timedelta(minutes=1)


@admin.register(Worker)
class WorkerAdmin(ReadOnly):
    list_display = ("worker", "condition", "host", "pid", "slots_used", "listening", "served", "beat", "started")
    ordering = ("-beat_at", "id")
    sortable_by = ()
    fields = (
        "condition",
        ("host", "pid", "version"),
        "slots_used",
        "listening",
        "served",
        "types",
        "beat",
        "started",
        "stopped",
    )

    class Media:
        css = {"all": ["taskqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        return Worker.objects.annotate(silent_for=DatabaseNow() - F("beat_at"))

    @admin.display(description="worker")
    def worker(self, worker: Worker) -> SafeString:
        return display.foreign(worker.id)

    @admin.display(description="condition")
    def condition(self, worker: Any) -> SafeString:
        if worker.stopped_at is not None:
            return display.badge("stopped", Tone.QUIET)
        if worker.silent_for > SILENT_AFTER:
            return display.badge(f"silent for {display.span(worker.silent_for)}", Tone.BAD)
        return display.badge("draining", Tone.WARNING) if worker.draining else display.badge("working", Tone.GOOD)

    @admin.display(description="slots")
    def slots_used(self, worker: Worker) -> str:
        stuck = f", {worker.stuck} stuck" if worker.stuck else ""
        return f"{worker.running} of {worker.slots} in use{stuck}"

    @admin.display(description="LISTEN")
    def listening(self, worker: Worker) -> SafeString:
        return format_html("{}, since {}", worker.listen_state, display.instant(worker.listen_since))

    @admin.display(description="queues")
    def served(self, worker: Worker) -> SafeString | str:
        return "all" if worker.queues is None else display.foreign(", ".join(worker.queues))

    @admin.display(description="task types")
    def types(self, worker: Worker) -> SafeString:
        return display.block("\n".join(sorted(worker.task_types)))

    @admin.display(description="last beat")
    def beat(self, worker: Any) -> SafeString:
        if worker.stopped_at is not None:
            return display.instant(worker.beat_at)
        return format_html("{} ago", display.span(worker.silent_for))

    @admin.display(description="started")
    def started(self, worker: Worker) -> SafeString:
        return display.instant(worker.started_at)

    @admin.display(description="stopped")
    def stopped(self, worker: Worker) -> SafeString:
        return display.instant(worker.stopped_at)
