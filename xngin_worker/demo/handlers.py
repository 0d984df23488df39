"""Two handlers that fail as real ones do, in seconds instead of minutes."""

from typing import Any

from taskqueue.handlers import TaskContext, handler
from taskqueue.retry import RetryPolicy
from xngin_worker.demo.kinds import DOOMED, FAILURES_BEFORE_SUCCESS, FLAKY, RETRIES_BEFORE_DEATH


class PartnerAway(Exception):
    """The other side, which exists in the demo's imagination only, gave no answer."""

    code = "partner_away"


class NoSuchCustomer(Exception):
    """What is asked for is not there, however often one asks."""

    code = "no_such_customer"


@handler(FLAKY, retry=RetryPolicy(max_retries=5, base_seconds=2.0, cap_seconds=3.0, jitter=0.0), timeout=10)
def flaky(payload: Any, context: TaskContext) -> dict[str, int]:
    if context.retry_count < FAILURES_BEFORE_SUCCESS:
        raise PartnerAway("the partner's service does not answer")
    return {"tries": context.retry_count + 1}


@handler(
    DOOMED,
    retry=RetryPolicy(max_retries=RETRIES_BEFORE_DEATH, base_seconds=0.5, cap_seconds=1.0, jitter=0.0),
    timeout=10,
)
def doomed(payload: Any) -> None:
    raise NoSuchCustomer("customer 4711 does not exist")
