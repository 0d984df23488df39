"""The task types of this app: importing a handler's module registers it."""

from taskqueue.reconciliation import handler as reconciliation  # noqa: F401
from taskqueue.webhook import handler, turn  # noqa: F401
