"""The queue's pages in Django's admin. People look at rows here and move tasks through ``operations``."""

from taskqueue.admin import tasks

__all__ = ["tasks"]
