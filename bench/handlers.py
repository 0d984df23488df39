"""What the tasks do, the same for every system: nothing, or waiting for 20 ms. Both report to the tally."""

import asyncio
import os
import time
from functools import cache
from pathlib import Path

from bench.tally import Tally

SLEEP_SECONDS = 0.02


@cache
def _tally() -> Tally:
    return Tally(Path(os.environ["BENCH_TALLY"]))


@cache
def _place() -> int:
    return int(os.environ["BENCH_PLACE"])


def noop() -> None:
    _tally().handler_started(_place())


def sleep() -> None:
    noop()
    time.sleep(SLEEP_SECONDS)


async def sleep_async() -> None:
    noop()
    await asyncio.sleep(SLEEP_SECONDS)
