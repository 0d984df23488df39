"""What the demo tells: a row that becomes a webhook, a task that needs three tries, and one that fails for good."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg
from django.contrib.admin.utils import quote
from django.urls import reverse
from psycopg import sql

from taskqueue.lifecycle import Status
from xngin_worker.demo.administrator import Administrator
from xngin_worker.demo.children import Children
from xngin_worker.demo.kinds import DOOMED, FAILURES_BEFORE_SUCCESS, FLAKY, RETRIES_BEFORE_DEATH
from xngin_worker.demo.life import TaskSeen, look
from xngin_worker.demo.receiver import Receiver, Request
from xngin_worker.demo.screen import Screen, elapsed
from xngin_worker.demo.stage import Site
from xngin_worker.demo.steps import StepFailed
from xngin_worker.demo.visitor import Visitor

LOOK_AGAIN_SECONDS = 0.03
_BODY = {"greeting": "hello from plain SQL"}

_INSERT = sql.SQL("INSERT INTO tasks (id, task_type, payload)\nVALUES ({}, {},\n        {})")


@dataclass(frozen=True, kw_only=True)
class Story:
    """Each scene returns what is to be said of it, or raises `StepFailed`."""

    screen: Screen
    connection: psycopg.Connection
    children: Children
    receiver: Receiver

    def webhook(self, task_id: str) -> str:
        """Insert a row as any program might, see the request arrive and the row succeed."""
        payload = {"url": self.receiver.url, "method": "POST", "body": _BODY}
        statement = self._statement(task_id, "webhook.outbound", payload)
        self.screen.block(statement, "cyan")
        inserted = time.monotonic()
        self.connection.execute(statement.encode())
        request = self._arrival(task_id)
        self.screen.line()
        self.screen.line(f"  The receiver gets, {elapsed(request.arrived - inserted)} later:")
        self.screen.line()
        self.screen.request(request)
        _check_request(request, task_id)
        self.screen.line()
        self.screen.line("  The row meanwhile:")
        self.screen.line()
        seen = self._follow(task_id)
        if seen.status != Status.SUCCESS or seen.attempt != 1:
            raise StepFailed(f"the task {task_id} is {_told(seen)}")
        return f"arrived {elapsed(request.arrived - inserted)} after the INSERT, success after {elapsed(_end(seen))}"

    def flaky(self, task_id: str) -> str:
        """A task whose handler fails twice and then succeeds."""
        seen = self._run(task_id, FLAKY, {"order": 12})
        failed = [tried["outcome"] for tried in seen.attempts]
        if seen.status != Status.SUCCESS or failed != ["failed"] * FAILURES_BEFORE_SUCCESS:
            raise StepFailed(f"the task {task_id} is {_told(seen)} after {failed}")
        return f"{len(failed)} failures, then success after {elapsed(_end(seen))}"

    def doomed(self, task_id: str) -> str:
        """A task that uses up its retries."""
        seen = self._run(task_id, DOOMED, {"customer": 4711})
        if seen.status != Status.DEAD or len(seen.attempts) != RETRIES_BEFORE_DEATH + 1:
            raise StepFailed(f"the task {task_id} is {_told(seen)} after {len(seen.attempts)} failures")
        return f"dead after {len(seen.attempts)} failures in {elapsed(_end(seen))}"

    def check_once(self, task_id: str) -> str:
        """By now other tasks have come and gone; a second request would have been made."""
        requests = self.receiver.of_task(task_id)
        if len(requests) != 1:
            raise StepFailed(f"the receiver got {len(requests)} requests with Webhook-Id {task_id}, not one")
        return f"one request with Webhook-Id {task_id}"

    def _run(self, task_id: str, task_type: str, payload: Mapping[str, object]) -> TaskSeen:
        statement = self._statement(task_id, task_type, payload)
        self.screen.block(statement, "cyan")
        self.screen.line()
        self.connection.execute(statement.encode())
        return self._follow(task_id)

    def _statement(self, task_id: str, task_type: str, payload: Mapping[str, object]) -> str:
        literals = (sql.Literal(text) for text in (task_id, task_type, json.dumps(payload)))
        return _INSERT.format(*literals).as_string(self.connection)

    def _arrival(self, task_id: str) -> Request:
        while not (requests := self.receiver.of_task(task_id)):
            self.children.pause(LOOK_AGAIN_SECONDS / 3)
            seen = look(self.connection, [task_id])
            if not seen or (seen[0].status != Status.SUCCESS and seen[0].attempts):
                raise StepFailed(f"the task {task_id} is {_told(seen[0]) if seen else 'gone'}")
        return requests[0]

    def _follow(self, task_id: str) -> TaskSeen:
        """Show the row's moments as they come, until its life is over."""
        shown = 0
        with self.screen.changing():
            while True:
                rows = look(self.connection, [task_id])
                if not rows:
                    raise StepFailed(f"the task {task_id} is gone")
                seen = rows[0]
                for moment in seen.moments[shown:]:
                    self.screen.moment(moment)
                shown = len(seen.moments)
                if seen.is_over:
                    return seen
                if seen.status == Status.PENDING and seen.retry_count:
                    self.screen.countdown(seen.due_in)
                self.children.pause(LOOK_AGAIN_SECONDS)


def new_id() -> str:
    return f"task_{secrets.token_hex(8)}"


def page_of(task_id: str) -> str:
    """The path of the task's page in the admin."""
    return reverse("admin:taskqueue_task_change", args=[quote(task_id)])


def check_page(site: Site, administrator: Administrator, task_id: str, expected: Sequence[str]) -> str:
    """Log in and read the task's page, which has to show all of `expected`."""
    with Visitor(site.url) as visitor:
        visitor.log_in(administrator)
        page = visitor.page(page_of(task_id))
        visitor.check_style(page)
    for text in (task_id, *expected):
        if text not in page:
            raise StepFailed(f"the page {site.address(page_of(task_id))} does not show {text!r}")
    return f"{site.address(page_of(task_id))} says {expected[0]}"


def _check_request(request: Request, task_id: str) -> None:
    agent = request.header("User-Agent") or ""
    if not request.line.startswith("POST / HTTP/"):
        raise StepFailed(f"the request is {request.line!r}")
    if not agent.startswith("xngin-worker/"):
        raise StepFailed(f"the request has the User-Agent {agent!r}")
    if not (request.header("Webhook-Timestamp") or "").isdecimal():
        raise StepFailed("the request has no Webhook-Timestamp")
    if json.loads(request.body) != _BODY:
        raise StepFailed(f"the request of {task_id} has another body than the payload")


def _told(seen: TaskSeen) -> str:
    last = seen.message or (seen.attempts[-1]["message"] if seen.attempts else "")
    return f"{seen.status} ({last})" if last else seen.status


def _end(seen: TaskSeen) -> float:
    return seen.moments[-1].at
