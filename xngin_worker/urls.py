"""Addresses of the web process."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.generic import RedirectView


def answer_health(_request: HttpRequest) -> HttpResponse:
    """Says that the web process answers. Asks no database: its loss is no reason to restart the site."""
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index", query_string=False)),
    path("health", answer_health),
    path("admin/", admin.site.urls),
]
