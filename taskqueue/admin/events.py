"""Events, kept for people: each webhook sent, for one. To be read only; the table may be as large as that of tasks."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db import connection
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast, Left, Length
from django.http import HttpRequest
from django.utils.safestring import SafeString

from taskqueue.admin import display
from taskqueue.admin.bounded import BoundedList
from taskqueue.admin.json_text import LARGEST_READ
from taskqueue.admin.read_only import ReadOnly
from taskqueue.models import Event

# One probe of the index events_by_type for each type.
_TYPES = """
WITH RECURSIVE types (type, place) AS (
    (SELECT e.type, 1 FROM events e ORDER BY e.type LIMIT 1)
    UNION ALL
    SELECT beyond.type, types.place + 1
    FROM types CROSS JOIN LATERAL (SELECT e.type FROM events e WHERE e.type > types.type ORDER BY e.type LIMIT 1) beyond
    WHERE types.place < 100
)
SELECT type FROM types
"""
_LONGEST_PREVIEW = 200


class EventTypeFilter(admin.SimpleListFilter):
    title = "type"
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(_TYPES)
            return [(name, name[:60]) for (name,) in cursor.fetchall()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        value = self.value()
        if value is None:
            return queryset
        return queryset.none() if "\x00" in value else queryset.filter(type=value)


@admin.register(Event)
class EventAdmin(ReadOnly, BoundedList):
    list_display = ("event", "kind", "organization", "beginning", "at")
    list_filter = (EventTypeFilter,)
    sortable_by = ()
    show_facets = admin.ShowFacets.NEVER
    fields = ("kind", "organization", "at", "shown_data")

    class Media:
        css = {"all": ["taskqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        text = Cast(F("data"), TextField())
        return Event.objects.defer("data").annotate(data_text=Left(text, LARGEST_READ), data_length=Length(text))

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Newest first, by the index there is: of all, or of one type."""
        return ("-created_at", "-id") if "type" in request.GET else ("-id",)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return lookup == "type"

    @admin.display(description="event")
    def event(self, event: Event) -> SafeString:
        return display.foreign(event.id)

    @admin.display(description="type")
    def kind(self, event: Event) -> SafeString:
        return display.foreign(event.type)

    @admin.display(description="organization")
    def organization(self, event: Event) -> SafeString:
        return display.foreign(event.organization_id)

    @admin.display(description="data")
    def beginning(self, event: Any) -> SafeString:
        return display.foreign(event.data_text, _LONGEST_PREVIEW)

    @admin.display(description="at")
    def at(self, event: Event) -> SafeString:
        return display.instant(event.created_at)

    @admin.display(description="data")
    def shown_data(self, event: Any) -> SafeString:
        return display.json_block(event.data_text, event.data_length)
