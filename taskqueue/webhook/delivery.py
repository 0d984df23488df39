"""One attempt to deliver a request: send it, record what came of it, and end the attempt accordingly."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import django.db
from django.conf import settings

from taskqueue import events
from taskqueue.errors import GiveUp
from taskqueue.handlers import TaskContext
from taskqueue.models import Webhook
from taskqueue.outbound.errors import AddressRefused, OutboundError, TimedOut
from taskqueue.outbound.exchange import Answer, Exchange
from taskqueue.outbound.target import target_of
from taskqueue.telemetry import emit
from taskqueue.text import storable
from taskqueue.webhook import fairness, records
from taskqueue.webhook.excerpt import excerpt
from taskqueue.webhook.masking import mask_headers, mask_url, secrets_in
from taskqueue.webhook.signature import SecretUnusable, identity, signature, token
from taskqueue.webhook.verdict import GONE, DeliveryFailed, verdict


@dataclass(frozen=True, kw_only=True)
class Message:
    """What one task sends. ``headers`` are its own; those that identify and sign it are added."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    organization_id: str | None
    webhook: Webhook | None


@dataclass(frozen=True, kw_only=True)
class Delivered:
    answer: Answer
    result: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Courier:
    """Delivers messages. What it needs is passed in; ``from_settings`` is what workers use."""

    exchange: Exchange
    destinations: fairness.Destinations
    chance: Callable[[], float] = random.random

    @classmethod
    def from_settings(cls, **limits: Any) -> "Courier":
        given: Mapping[str, Any] = settings.TASKQUEUE
        bundle = given["CA_BUNDLE"]
        return cls(
            exchange=Exchange(
                allowed_networks=tuple(ip_network(str(network)) for network in given["WEBHOOK_ALLOWED_NETWORKS"]),
                ca_bundle=None if bundle is None else Path(bundle),
                **limits,
            ),
            destinations=fairness.of_this_process(),
        )

    def deliver(self, message: Message, context: TaskContext) -> Delivered:
        """Send ``message`` once. Returns only after a 2xx.

        Raises ``DeliveryFailed`` or ``RetryLater`` for another try, ``GiveUp`` when there can be none, and ``Snooze``
        when too much is under way to the same destination.
        """
        try:
            headers = _with_our_headers(message, context)
            destination = target_of(message.url).destination
        except SecretUnusable as error:
            raise DeliveryFailed(error.code, str(error)) from None
        except ValueError as error:
            raise GiveUp("invalid_url", f"the address {error}") from None
        sent = _Sent(message=message, headers=headers, context=context)
        started = time.monotonic()
        # Causes are left out of what is raised: the library's errors quote the whole URL, and tracebacks are stored.
        try:
            with self.destinations.slot(destination):
                answer = self.exchange.request(message.method, message.url, headers=headers, body=message.body)
        except AddressRefused as error:
            sent.record(error=error, duration_ms=_milliseconds_since(started))
            raise GiveUp(error.code, str(error)) from None
        except OutboundError as error:
            sent.record(error=error, duration_ms=_milliseconds_since(started))
            raise DeliveryFailed(error.code, f"{mask_url(message.url)}: {error}") from None
        return sent.settle(answer, self.chance)


@dataclass(frozen=True, kw_only=True)
class _Sent:
    """A request that was made, to be recorded."""

    message: Message
    headers: Mapping[str, str]
    context: TaskContext

    def settle(self, answer: Answer, chance: Callable[[], float]) -> Delivered:
        secrets = self._secrets()
        response = excerpt(answer, secrets)
        problem = verdict(
            answer, url=self.message.url, response=response, secrets=secrets, now=datetime.now(UTC), chance=chance
        )
        result = {
            "status": answer.status,
            "duration_ms": answer.duration_ms,
            "body": response,
            "body_cut": answer.body_cut,
        }
        not_recorded = self.record(answer=answer, response=response, error=problem, duration_ms=answer.duration_ms)
        if problem is not None:
            raise problem
        if not_recorded is not None:
            result["not_recorded"] = not_recorded
        return Delivered(answer=answer, result=result)

    def record(
        self,
        *,
        duration_ms: int,
        error: Exception | None,
        answer: Answer | None = None,
        response: str | None = None,
    ) -> str | None:
        """Write the ``webhook.sent`` event, and what the webhook's own row has to know. Tells why it could not.

        What came of the request stands either way: failing here would send again what has arrived, or hide why it
        has not.
        """
        message, context = self.message, self.context
        status = None if answer is None else answer.status
        code = None if error is None else str(getattr(error, "code", "error"))
        facts: dict[str, Any] = {
            "task_id": context.id,
            "attempt": context.attempt,
            "webhook_id": None if message.webhook is None else message.webhook.id,
            "url": mask_url(message.url),
            "method": message.method,
            "status": status,
            "duration_ms": duration_ms,
            "error_code": code,
        }
        emit(events.WEBHOOK_SENT, correlation_id=context.correlation_id, **facts)
        try:
            self._note_on_webhook(status, error)
            records.note_sent(
                organization_id=message.organization_id,
                data={
                    **facts,
                    "error": None if error is None else str(error),
                    "request_headers": mask_headers(self.headers),
                    "response": response,
                    "response_cut": None if answer is None else answer.body_cut,
                },
            )
        except django.db.Error as trouble:
            return storable(str(trouble))
        return None

    def _note_on_webhook(self, status: int | None, error: Exception | None) -> None:
        webhook = self.message.webhook
        if webhook is None:
            return
        if isinstance(error, TimedOut):
            records.note_timeout(webhook.id)
        elif status is not None:
            records.note_answer(webhook.id)
        if status == GONE:
            where = mask_url(self.message.url)
            records.disable(webhook.id, f"{where} answered 410 (gone for good) to the task {self.context.id}")

    def _secrets(self) -> tuple[str, ...]:
        webhook = self.message.webhook
        others = [] if webhook is None else [webhook.auth_token, *(webhook.signing_secret or "").split()]
        return secrets_in(self.message.url, self.headers, others)


def _with_our_headers(message: Message, context: TaskContext) -> dict[str, str]:
    now = datetime.now(UTC)
    webhook = message.webhook
    headers = dict(message.headers)
    if message.body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    headers |= identity(task_id=context.id, correlation_id=context.correlation_id, now=now)
    if webhook is not None:
        secrets = (webhook.signing_secret or "").split()
        headers |= signature(task_id=context.id, now=now, body=message.body, secrets=secrets)
        headers |= token(webhook.auth_token)
    return headers


def _milliseconds_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
