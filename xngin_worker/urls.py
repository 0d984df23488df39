"""Addresses of the web process, besides `/health`."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index", query_string=False)),
    path("admin/", admin.site.urls),
]
