"""Django's task with what this queue can do besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.tasks.base import Task

from taskqueue.retry import LONGEST_SECONDS, RetryPolicy


# Without parameters of its base: they exist for type checkers only.
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTask(Task):  # type: ignore[type-arg]
    """What ``@task`` makes with this backend. Copies by ``using()`` and by pickling keep all of it.

    ``max_retries`` counts tries after the first; ``timeout`` is in seconds; ``dedupe_key`` is a text, or a function of
    the task's arguments that returns one.
    """

    max_retries: int | None = None
    retry_policy: RetryPolicy | None = None
    timeout: float | None = None
    dedupe_key: str | Callable[..., str] | None = None

    def problems(self) -> list[str]:
        found = []
        if self.max_retries is not None and (type(self.max_retries) is not int or not 0 <= self.max_retries < 2**31):
            found.append("max_retries must be a whole number from 0 to 2147483647")
        if self.retry_policy is not None and not isinstance(self.retry_policy, RetryPolicy):
            found.append("retry_policy must be a taskqueue.retry.RetryPolicy")
        if self.timeout is not None and not (
            isinstance(self.timeout, int | float) and 0 < self.timeout <= LONGEST_SECONDS
        ):
            found.append("timeout must be more than 0 seconds and at most a year")
        if self.dedupe_key is not None and not isinstance(self.dedupe_key, str) and not callable(self.dedupe_key):
            found.append("dedupe_key must be a text or a function of the task's arguments")
        return found

    def key_for(self, args: tuple[Any, ...] | list[Any], kwargs: dict[str, Any]) -> str | None:
        return self.dedupe_key(*args, **kwargs) if callable(self.dedupe_key) else self.dedupe_key
