"""Identifiers and the other values that the database itself fills in, whoever inserts the row."""

import secrets
import time

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models import Func

# The first two bits of this digit are fixed in a UUID, the other two are random.
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def new_id(prefix: str) -> str:
    """An id as the database's default makes it: prefix, milliseconds (so that ids sort by time), 80 random bits."""
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def new_ids(prefix: str, count: int) -> list[str]:
    """Many ids of one instant, in ascending order: a number of 20 bits stands before 60 random ones."""
    stamp = f"{prefix}{time.time_ns() // 1_000_000:012x}"
    random = secrets.token_hex(8 * count)
    return [f"{stamp}{number & 0xFFFFF:05x}{random[16 * number + 1 : 16 * number + 16]}" for number in range(count)]


class NewId(Func):
    """``new_id`` in SQL. The random bits are the ends of a version 4 UUID, whose middle is not random."""

    template = (
        "('%(prefix)s' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')"
        " || left(gen_random_uuid()::text, 8) || right(gen_random_uuid()::text, 12))"
    )
    output_field = models.TextField()

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix=prefix)


class NewCorrelationId(Func):
    """A version 7 UUID as text. It begins with the time, so that its index grows at one end.

    Random UUIDs touch an index page anywhere for every row, which costs ten times the WAL at a million rows.
    """

    _milliseconds = "lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0')"
    template = (
        f"(left({_milliseconds}, 8) || '-' || right({_milliseconds}, 4) || '-7' || substr(gen_random_uuid()::text, 16))"
    )
    output_field = models.TextField()


class DatabaseNow(TransactionNow):
    """``now()``: the start of the transaction by the database's clock."""


def new_correlation_id() -> str:
    random = secrets.token_hex(10)
    stamp = f"{time.time_ns() // 1_000_000:012x}"
    variant = "89ab"[secrets.randbelow(4)]
    return f"{stamp[:8]}-{stamp[8:]}-7{random[:3]}-{variant}{random[3:6]}-{random[6:18]}"


def new_correlation_ids(count: int) -> list[str]:
    """Many of one instant; in ascending order as long as they are no more than 4096."""
    stamp = f"{time.time_ns() // 1_000_000:012x}"
    stamp = f"{stamp[:8]}-{stamp[8:]}-7"
    random = secrets.token_hex(8 * count)
    made = []
    for number in range(count):
        bits = random[16 * number : 16 * number + 16]
        made.append(f"{stamp}{number & 0xFFF:03x}-{_VARIANTS[bits[0]]}{bits[1:4]}-{bits[4:]}")
    return made
