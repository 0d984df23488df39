"""The queue's rules of reconciliation: importing this module declares them."""

from taskqueue.reconciliation.queue_checks import CHECKS
from taskqueue.reconciliation.rules import declare

declare(*CHECKS)
