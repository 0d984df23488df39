"""The project itself as an app: the home of its management commands."""

from __future__ import annotations

from django.apps import AppConfig


class XnginWorkerConfig(AppConfig):
    name = "xngin_worker"
    verbose_name = "xngin worker"
