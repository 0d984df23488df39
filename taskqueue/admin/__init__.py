"""The queue's pages in Django's admin. People look at rows here and move tasks through ``operations``."""

from taskqueue.admin import controls, events, reconciliation, tasks, webhooks, workers

__all__ = ["controls", "events", "reconciliation", "tasks", "webhooks", "workers"]
