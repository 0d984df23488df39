"""What keeps lists of huge tables quick: plans that do not depend on statistics, capped counts, shallow pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse

from taskqueue.admin.model_admin import AnyModelAdmin

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

REACHABLE = 10_000


@contextmanager
def steady_plans(alias: str = "default") -> Iterator[None]:
    """Read by index inside. A LIMIT tempts the planner to read a whole table whose few matching rows are at its end."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)")
        yield


class BoundedList(AnyModelAdmin):
    """Makes the list view of a ``ModelAdmin`` read, and render, with ``steady_plans``."""

    show_full_result_count = False
    list_max_show_all = 0
    list_per_page = 50

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            return super().changelist_view(request, extra_context)
        with steady_plans():
            response = super().changelist_view(request, extra_context)
            # Querysets are lazy: unrendered, they would be read after the settings are gone.
            if isinstance(response, SimpleTemplateResponse):
                response.render()
            return response

    def get_paginator(self, request: HttpRequest, queryset: Any, per_page: int, *rest: Any) -> "BoundedPaginator":
        return BoundedPaginator(queryset, per_page)


class BoundedPaginator(_Paginator):
    """Counts no further than it lets people turn pages; beyond that it says "more than" or "about"."""

    @cached_property
    def count(self) -> int:
        return min(self._known, REACHABLE)

    @property
    def is_cut(self) -> bool:
        return self._known > REACHABLE

    @property
    def label(self) -> str:
        """The number of rows in words."""
        if self._estimate > REACHABLE:
            return _about(self._estimate)
        return f"more than {REACHABLE:,}" if self.is_cut else f"{self._known:,}"

    @cached_property
    def _known(self) -> int:
        if self._estimate > REACHABLE:
            return REACHABLE + 1
        rows: Any = self.object_list
        counted: int = rows.values("pk")[: REACHABLE + 1].count()
        return counted

    @cached_property
    def _estimate(self) -> int:
        """What PostgreSQL thinks the table holds, when nothing narrows the list; else 0."""
        rows: Any = self.object_list
        if rows.query.where:
            return 0
        with connections[rows.db].cursor() as cursor:
            cursor.execute("SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)", [rows.model._meta.db_table])
            found = cursor.fetchone()
        return int(found[0]) if found else 0


def _about(number: int) -> str:
    if number >= 1_000_000:
        return f"about {number / 1_000_000:.3g} million"
    return f"about {round(number, -3):,}"
