"""The beginning of an answer's body as text that can be stored and shown."""

from collections.abc import Iterable

from taskqueue.outbound.exchange import Answer
from taskqueue.text import storable
from taskqueue.webhook.masking import scrub

LIMIT_BYTES = 1024


def excerpt(answer: Answer, secrets: Iterable[str]) -> str:
    """The first 1 kB, with the request's secrets masked, since receivers like to quote what they were sent."""
    encoding = answer.headers.get("Content-Encoding", "identity")
    if answer.body and encoding.strip().lower() not in {"", "identity"}:
        return f"({len(answer.body)} bytes in the encoding {storable(encoding, 40)!r}, not unpacked)"
    # Masked before it is cut: half a secret would not be recognised.
    return first_bytes(scrub(answer.body.decode("utf-8", "replace"), secrets), LIMIT_BYTES)


def first_bytes(text: str, limit: int) -> str:
    """The beginning of ``text``, at most ``limit`` bytes of it in UTF-8, without what PostgreSQL refuses."""
    clean = storable(text, limit=4 * len(text) + 1)
    return clean.encode()[:limit].decode("utf-8", "ignore")
