"""Claims as a worker process holds them, and how their attempts end."""

from __future__ import annotations

import math

from taskqueue.finishes import Finish, Finishes
from taskqueue.handlers import Handler
from taskqueue.lifecycle import Event
from taskqueue.outcomes import Ending, Tries
from taskqueue.records import Claim
from taskqueue.retry import RetryPolicy
from taskqueue.running import Held


def held_of(claim: Claim) -> Held:
    handler = Handler(task_type=claim.task_type, function=lambda payload: None)
    return Held(claim=claim, handler=handler, deadline=math.inf, claimed_at=0.0)


def tries_of(*, retry_count: int = 0, max_retries: int | None = None, policy: RetryPolicy | None = None) -> Tries:
    return Tries(
        retry_count=retry_count,
        task_max_retries=max_retries,
        policy=policy or RetryPolicy(),
        default_max_retries=10,
        random=lambda: 0.0,
    )


def success(result: str | None = None) -> Ending:
    return Ending(event=Event.COMPLETE, result=result)


def failed(message: str = "it failed") -> Ending:
    return Ending(event=Event.FAIL, message=message, error_code="error", delay_seconds=60.0)


def finish_of(claim: Claim, ending: Ending) -> Finish:
    return Finish(held=held_of(claim), ending=ending, tries=lambda _held: tries_of())


def finishes_of(*finishes: Finish) -> Finishes:
    waiting = Finishes()
    for finish in finishes:
        waiting.put(finish)
    return waiting
