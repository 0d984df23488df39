"""Who runs what a test enqueues: the enqueueing process itself once it has committed, or whoever drains."""

from django.conf import settings
from django.test import override_settings


def immediate() -> override_settings:
    """Tasks that are due run in this process when the transaction that enqueued them is committed.

    Within a ``TestCase`` that is when ``captureOnCommitCallbacks(execute=True)`` ends. Use it as a context manager, or
    as a decorator of a function or a test class.
    """
    return _mode("immediate")


def manual() -> override_settings:
    """Tasks run only when the test drains. So it is by default; this takes an ``immediate`` around it back."""
    return _mode("workers")


def _mode(mode: str) -> override_settings:
    return override_settings(TASKQUEUE={**getattr(settings, "TASKQUEUE", {}), "MODE": mode})
