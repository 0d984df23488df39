"""When a failed task is tried again, and how often. Pure arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_MAX_RETRIES = 10
LONGEST_SECONDS = 366 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """``min(base · 2^retry_count, cap)`` seconds, plus up to ``jitter`` of it so that a herd spreads.

    ``max_retries`` counts tries after the first one, which always happens; ``None`` leaves it to the worker's setting.
    """

    max_retries: int | None = None
    base_seconds: float = 60.0
    cap_seconds: float = 900.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if self.max_retries is not None and self.max_retries < 0:
            raise ValueError("max_retries must be 0 or more")
        if not 0 <= self.base_seconds <= LONGEST_SECONDS or not 0 <= self.cap_seconds <= LONGEST_SECONDS:
            raise ValueError("base_seconds and cap_seconds must lie between 0 and a year of seconds")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter must lie between 0 and 1")

    def delay_seconds(self, retry_count: int, random: Callable[[], float]) -> float:
        """Seconds to wait after a failure that had ``retry_count`` retries behind it.

        ``random`` returns a number in [0, 1).
        """
        # Past 2^62 the cap has long been reached; the bound keeps a huge count from overflowing a float.
        backoff = min(self.base_seconds * 2.0 ** min(retry_count, 62), self.cap_seconds)
        return backoff * (1.0 + self.jitter * random())


def retries_left(*, retry_count: int, task: int | None, policy: int | None, default: int) -> bool:
    """Whether another try is allowed: the task's own limit, else its handler's, else the worker's."""
    limit = task if task is not None else policy if policy is not None else default
    return retry_count < limit
