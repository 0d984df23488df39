"""The queue's pages in Django's admin. People look at rows here and move tasks through ``operations``."""

from taskqueue.admin import controls, events, tasks, webhooks, workers

__all__ = ["controls", "events", "tasks", "webhooks", "workers"]
