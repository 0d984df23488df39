"""Reports of reconciliations, to be read only: repairs are planned and applied with `manage.py reconcile`."""

from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast, Left, Length
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.bounded import BoundedList
from taskqueue.admin.json_text import LARGEST_READ
from taskqueue.admin.read_only import ReadOnly
from taskqueue.lifecycle import Tone
from taskqueue.models import ReconciliationReport


@admin.register(ReconciliationReport)
class ReconciliationReportAdmin(ReadOnly, BoundedList):
    list_display = ("report", "outcome", "judged", "made_by", "at")
    ordering = ("-id",)
    sortable_by = ()
    fields = ("outcome", "at", "finished", "made_by", "rule_table", "shown_findings")

    class Media:
        css = {"all": ["taskqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        text = Cast(F("findings"), TextField())
        return ReconciliationReport.objects.defer("findings").annotate(
            findings_text=Left(text, LARGEST_READ), findings_length=Length(text)
        )

    @admin.display(description="report")
    def report(self, report: ReconciliationReport) -> SafeString:
        return display.foreign(report.id)

    @admin.display(description="findings")
    def outcome(self, report: ReconciliationReport) -> SafeString:
        if report.findings_count:
            return display.badge(f"{report.findings_count:,} found", Tone.BAD)
        return display.badge("nothing found", Tone.GOOD)

    @admin.display(description="rules")
    def judged(self, report: ReconciliationReport) -> str:
        broken = sum(1 for result in report.rules if result["found"])
        return f"{broken} of {len(report.rules)} broken"

    @admin.display(description="made by")
    def made_by(self, report: ReconciliationReport) -> SafeString:
        return display.foreign(report.actor)

    @admin.display(description="as of")
    def at(self, report: ReconciliationReport) -> SafeString:
        return display.instant(report.snapshot_at)

    @admin.display(description="stored at")
    def finished(self, report: ReconciliationReport) -> SafeString:
        return display.instant(report.finished_at)

    @admin.display(description="rules")
    def rule_table(self, report: ReconciliationReport) -> SafeString:
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            ((result["rule"], f"{result['found']:,}", f"{result['kept']:,}") for result in report.rules),
        )
        return format_html("<table><tr><th>rule</th><th>found</th><th>kept below</th></tr>{}</table>", rows)

    @admin.display(description="findings")
    def shown_findings(self, report: Any) -> SafeString:
        return display.json_block(report.findings_text, report.findings_length)
