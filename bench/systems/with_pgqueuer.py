"""pgqueuer, on its psycopg driver and, as its own command does, on uvloop."""

import asyncio
import time
from typing import TYPE_CHECKING

import psycopg

from bench import handlers
from bench.system import System

if TYPE_CHECKING:
    from pgqueuer.models import Job

# Tried from 10 (its default) to 1000: see README.md.
DRAIN_BATCH = 50


def _create(url: str) -> None:
    from pgqueuer.db import PsycopgDriver
    from pgqueuer.queries import Queries

    async def install() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await Queries(PsycopgDriver(connection)).install()

    asyncio.run(install())


def _work(url: str, concurrency: int) -> None:
    import uvloop
    from pgqueuer import PgQueuer
    from pgqueuer.db import PsycopgDriver

    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            queue = PgQueuer(PsycopgDriver(connection))

            @queue.entrypoint("noop")
            async def noop(_job: "Job") -> None:
                handlers.noop()

            @queue.entrypoint("sleep")
            async def sleep(_job: "Job") -> None:
                await handlers.sleep_async()

            await queue.run(batch_size=concurrency)

    uvloop.run(run())


def _enqueue(url: str, count: int, kind: str) -> float:
    from pgqueuer.db import PsycopgDriver
    from pgqueuer.queries import Queries

    async def enqueue() -> float:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            queries = Queries(PsycopgDriver(connection))
            await connection.execute("SELECT 1")
            began = time.perf_counter()
            payloads: list[bytes | None] = [b'{"n": %d}' % number for number in range(count)]
            await queries.enqueue([kind] * count, payloads, [0] * count)
            return time.perf_counter() - began

    return asyncio.run(enqueue())


SYSTEM = System(
    name="pgqueuer",
    setup="psycopg driver, uvloop, `batch_size` = the product's slots, no limit of concurrency",
    create=_create,
    work=_work,
    enqueue=_enqueue,
    insert="""INSERT INTO pgqueuer (priority, status, entrypoint, payload) VALUES (0, 'queued', 'noop', '{"n": 1}')""",
    unfinished="SELECT EXISTS (SELECT FROM pgqueuer)",
    done="SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
    empty="TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics",
    # It deletes what is done and keeps a line in its log.
    fill="""INSERT INTO pgqueuer_log (job_id, status, priority, entrypoint, aggregated)
        SELECT -n, 'successful', 0, 'noop', true FROM generate_series(1, %(count)s) AS n""",
)
