"""A task's life in moments, from what a look at its row and attempts found. The look itself is tried by the demo."""

from __future__ import annotations

from typing import Any

from taskqueue.lifecycle import Status
from xngin_worker.demo.life import Moment, TaskSeen


def seen(status: Status, *, attempt: int = 0, **known: Any) -> TaskSeen:
    fields: dict[str, Any] = {
        "retry_count": 0,
        "message": None,
        "started": None,
        "finished": None,
        "due_in": 0.0,
        "attempts": [],
        "transitions": [],
    }
    return TaskSeen(id="task_1", task_type="demo.flaky", status=status, attempt=attempt, **{**fields, **known})


def tried(attempt: int, outcome: str, *, pause: float | None) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "outcome": outcome,
        "message": "it broke\nin detail",
        "started": attempt * 10.0,
        "finished": attempt * 10.0 + 1,
        "pause": pause,
    }


def states(task: TaskSeen) -> list[tuple[float, str]]:
    return [(moment.at, moment.status) for moment in task.moments]


def test_a_later_look_only_adds_to_what_an_earlier_one_told() -> None:
    failed = tried(1, "failed", pause=2.0)
    looks = [
        seen(Status.PENDING),
        seen(Status.RUNNING, attempt=1, started=10.0),
        seen(Status.PENDING, attempt=1, started=10.0, retry_count=1, attempts=[failed]),
        seen(Status.RUNNING, attempt=2, started=13.0, retry_count=1, attempts=[failed]),
        seen(Status.SUCCESS, attempt=2, started=13.0, finished=13.5, retry_count=1, attempts=[failed]),
    ]
    told: list[Moment] = []
    for look in looks:
        assert look.moments[: len(told)] == told
        assert len(look.moments) == len(told) + 1
        told = look.moments
    assert told[2].remark == "try 1 failed: it broke; next try in 2.0 s"
    assert states(looks[-1]) == [
        (0.0, Status.PENDING),
        (10.0, Status.RUNNING),
        (11.0, Status.PENDING),
        (13.0, Status.RUNNING),
        (13.5, Status.SUCCESS),
    ]


def test_the_last_failure_is_told_by_what_became_of_the_task() -> None:
    dead = seen(Status.DEAD, attempt=1, finished=11.0, attempts=[tried(1, "failed", pause=None)])
    given_up = seen(Status.DEAD_LETTERED, attempt=1, finished=11.0, attempts=[tried(1, "discarded", pause=None)])
    assert dead.moments[-1].status == Status.DEAD
    assert given_up.moments[-1].status == Status.DEAD_LETTERED
    assert dead.is_over
    assert given_up.is_over


def test_a_lost_try_goes_on_running_elsewhere() -> None:
    task = seen(Status.RUNNING, attempt=2, started=11.0, attempts=[tried(1, "lost", pause=None)])
    assert states(task)[1:] == [(10.0, Status.RUNNING), (11.0, Status.RUNNING), (11.0, Status.RUNNING)]
    assert not task.is_over


def test_a_crash_loop_ends_with_what_the_row_says() -> None:
    lost = [tried(number, "lost", pause=None) for number in (1, 2, 3)]
    task = seen(Status.DEAD_LETTERED, attempt=3, finished=31.0, message="it took three workers down", attempts=lost)
    assert task.moments[-1] == Moment(at=31.0, status="dead_lettered", remark="it took three workers down")


def test_a_dead_task_that_a_person_retries_keeps_its_past() -> None:
    past = tried(1, "failed", pause=None)
    retried = {"at": 20.0, "status": "pending", "event": "retry", "actor": "ada"}
    dead = seen(Status.DEAD, attempt=1, started=10.0, finished=11.0, attempts=[past])
    again = seen(Status.PENDING, attempt=1, started=10.0, attempts=[past], transitions=[retried])
    assert again.moments == [*dead.moments, Moment(at=20.0, status="pending", remark="retry by ada")]
