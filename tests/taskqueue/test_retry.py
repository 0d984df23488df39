"""The formula of the backoff, and who decides how often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.retry import RetryPolicy, retries_left

_SECONDS = st.floats(0, 100_000)


@given(
    base=_SECONDS,
    cap=_SECONDS,
    jitter=st.floats(0, 1),
    retry_count=st.integers(0, 2**31),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_the_backoff_is_base_times_two_to_the_retries_capped_plus_jitter(
    base: float, cap: float, jitter: float, retry_count: int, chance: float
) -> None:
    policy = RetryPolicy(base_seconds=base, cap_seconds=cap, jitter=jitter)

    delay = policy.delay_seconds(retry_count, lambda: chance)

    backoff = min(base * 2.0 ** min(retry_count, 62), cap)
    assert backoff <= delay <= backoff * (1 + jitter)
    assert delay == pytest.approx(backoff + backoff * jitter * chance)


def test_the_default_is_a_minute_doubling_to_a_quarter_of_an_hour_with_a_tenth_of_jitter() -> None:
    policy = RetryPolicy()
    assert [policy.delay_seconds(n, lambda: 0.0) for n in range(6)] == [60, 120, 240, 480, 900, 900]
    assert policy.delay_seconds(0, lambda: 1.0) == pytest.approx(66)


@pytest.mark.parametrize(
    "values",
    [
        {"max_retries": -1},
        {"base_seconds": -1.0},
        {"base_seconds": float("nan")},
        {"cap_seconds": float("inf")},
        {"jitter": 1.5},
        {"jitter": -0.1},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        RetryPolicy(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "policy", "default", "limit"),
    [(None, None, 10, 10), (None, 3, 10, 3), (5, 3, 10, 5), (0, 3, 10, 0), (None, 0, 10, 0)],
)
def test_the_task_s_own_limit_comes_before_the_handler_s_and_that_before_the_worker_s(
    task: int | None, policy: int | None, default: int, limit: int
) -> None:
    allowed = [retries_left(retry_count=n, task=task, policy=policy, default=default) for n in range(12)]
    assert allowed.count(True) == limit
    assert allowed == sorted(allowed, reverse=True)
