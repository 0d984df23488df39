"""What an answer means for the task. Pure: the answer in, the error to raise out."""

from collections.abc import Callable
from datetime import datetime
from urllib.parse import urljoin

from taskqueue.errors import GiveUp, RetryLater
from taskqueue.outbound.exchange import Answer
from taskqueue.webhook.excerpt import first_bytes
from taskqueue.webhook.masking import mask_url, scrub
from taskqueue.webhook.retry_after import LONGEST_SECONDS, wait_seconds

GONE = 410
_ASK_TO_WAIT = frozenset({429, 503})
_LONGEST_TARGET = 300


class DeliveryFailed(Exception):
    """The request did not succeed and may be tried again. ``code`` is stable, the text is for people."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def verdict(
    answer: Answer,
    *,
    url: str,
    response: str,
    secrets: tuple[str, ...],
    now: datetime,
    chance: Callable[[], float],
) -> Exception | None:
    """None for a success. ``response`` is the beginning of the body, kept with the failure."""
    if answer.is_success:
        return None
    told = f"; the answer begins: {response}" if response else ""
    where = mask_url(url)
    if answer.status == GONE:
        return GiveUp("gone", f"{where} answered 410: it is gone for good{told}")
    target = answer.headers.get("Location")
    if 300 <= answer.status < 400 and target is not None:
        return DeliveryFailed(
            "redirected",
            f"{where} answered {answer.status}, a redirect to {_shown_target(url, target, secrets)}. Redirects are not "
            f"followed: store the final address, which tasks carry as `url` in their payload{told}",
        )
    code, message = f"http_{answer.status}", f"{where} answered {answer.status}{told}"
    wait = wait_seconds(answer.headers.get("Retry-After"), now=now) if answer.status in _ASK_TO_WAIT else None
    if wait is None:
        return DeliveryFailed(code, message)
    # Later by a little, never earlier: all who were told the same should not come back at the same moment.
    wait = min(wait * (1 + 0.1 * chance()), LONGEST_SECONDS)
    return RetryLater(wait, f"{message}; it asks to wait {wait:.0f} s", code)


def _shown_target(url: str, target: str, secrets: tuple[str, ...]) -> str:
    try:
        absolute = urljoin(url, target)
    except ValueError:
        absolute = target
    return first_bytes(scrub(mask_url(absolute), secrets), _LONGEST_TARGET)
