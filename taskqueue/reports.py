"""Which event follows from what was written about a task."""

import time

import psycopg

from taskqueue import events, telemetry
from taskqueue.finishes import Finish, Written
from taskqueue.lifecycle import Event
from taskqueue.records import Claim, CrashLoop
from taskqueue.text import message_of


def report_claimed(claim: Claim, *, worker_id: str) -> None:
    if claim.lost_worker_id is None and not events.CLAIMED.heard:
        return
    task = {
        "task_id": claim.id,
        "task_type": claim.task_type,
        "attempt": claim.attempt,
        "correlation_id": claim.correlation_id,
        "worker_id": worker_id,
    }
    if claim.lost_worker_id is None:
        telemetry.emit(events.CLAIMED, **task, waited_ms=_milliseconds(claim.waited_seconds))
    else:
        telemetry.emit(events.RECLAIMED, **task, lost_worker_id=claim.lost_worker_id, lost_count=claim.lost_count)


def report_crash_loop(loop: CrashLoop) -> None:
    telemetry.emit(
        events.CRASH_LOOP,
        task_id=loop.id,
        task_type=loop.task_type,
        attempt=loop.attempt,
        correlation_id=loop.correlation_id,
        worker_id=loop.lost_worker_id,
        lost_worker_id=loop.lost_worker_id,
        lost_count=loop.lost_count,
    )


def report_lost(finish_event: str, claim: Claim, *, worker_id: str) -> None:
    telemetry.emit(
        events.CLAIM_LOST,
        task_id=claim.id,
        task_type=claim.task_type,
        attempt=claim.attempt,
        correlation_id=claim.correlation_id,
        worker_id=worker_id,
        move=finish_event,
    )


def report_refused(finish: Finish, error: psycopg.Error, *, worker_id: str) -> None:
    claim = finish.held.claim
    telemetry.emit(
        events.FINISH_REFUSED,
        task_id=claim.id,
        task_type=claim.task_type,
        attempt=claim.attempt,
        correlation_id=claim.correlation_id,
        worker_id=worker_id,
        move=finish.ending.event.value,
        reason=message_of(error),
    )


def report_written(written: Written, *, worker_id: str) -> None:
    finish = written.finish
    claim, ending = finish.held.claim, finish.ending
    if not written.kept:
        if not finish.held.lost:
            report_lost(ending.event.value, claim, worker_id=worker_id)
        return
    if ending.event is Event.RELEASE and not written.superseded:
        telemetry.emit(
            events.RELEASED,
            task_id=claim.id,
            task_type=claim.task_type,
            attempt=claim.attempt,
            correlation_id=claim.correlation_id,
            worker_id=worker_id,
        )
        return
    if ending.event is Event.COMPLETE and not events.RUN.heard:
        return
    run = _run(finish, worker_id)
    if ending.event is Event.COMPLETE:
        telemetry.emit(events.RUN, **run)
    elif ending.event in (Event.FAIL, Event.SNOOZE) and not written.superseded:
        telemetry.emit(
            events.RETRY,
            **run,
            message=ending.message,
            move=ending.event.value,
            next_try_in_seconds=None if ending.embargo_until else round(ending.delay_seconds, 3),
        )
    else:
        move = "superseded" if written.superseded else ending.event.value
        telemetry.emit(events.EXHAUSTED, **run, message=ending.message, move=move)


def _run(finish: Finish, worker_id: str) -> dict[str, object]:
    claim = finish.held.claim
    return {
        "task_id": claim.id,
        "task_type": claim.task_type,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "correlation_id": claim.correlation_id,
        "worker_id": worker_id,
        "latency_ms": _milliseconds(time.monotonic() - finish.held.claimed_at),
        "waited_ms": _milliseconds(claim.waited_seconds),
        "error_code": finish.ending.error_code,
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
