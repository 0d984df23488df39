"""The kit for testing handlers and what enqueues: see docs/testing.md. Fixtures for pytest are in ``pytest_plugin``."""

from taskqueue.in_process import DrainSummary, Processed, drain_due, process
from taskqueue.testing.enqueued import assert_enqueued, assert_not_enqueued
from taskqueue.testing.factories import make_task, make_webhook
from taskqueue.testing.heard import CapturedEvents, HeardEvent, capture_events
from taskqueue.testing.modes import immediate, manual
from taskqueue.testing.worker_thread import RunningWorker, running_worker

__all__ = [
    "CapturedEvents",
    "DrainSummary",
    "HeardEvent",
    "Processed",
    "RunningWorker",
    "assert_enqueued",
    "assert_not_enqueued",
    "capture_events",
    "drain_due",
    "immediate",
    "make_task",
    "make_webhook",
    "manual",
    "process",
    "running_worker",
]
