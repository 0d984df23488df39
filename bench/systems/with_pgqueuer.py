"""pgqueuer, on its asyncpg driver and, as its own command does, on uvloop.

Not on its psycopg driver: there a wait for notifications holds the connection, so an idle queue answers after seconds.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bench import handlers
from bench.system import System

if TYPE_CHECKING:
    import asyncpg
    from pgqueuer.models import Job


@asynccontextmanager
async def _connected(url: str) -> "AsyncIterator[asyncpg.Connection[Any]]":
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def _create(url: str) -> None:
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    async def install() -> None:
        async with _connected(url) as connection:
            await Queries(AsyncpgDriver(connection)).install()

    asyncio.run(install())


def _work(url: str, concurrency: int, kind: str) -> None:
    import uvloop
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    async def run() -> None:
        async with _connected(url) as connection:
            queue = PgQueuer(AsyncpgDriver(connection))

            @queue.entrypoint("noop")
            async def noop(_job: "Job") -> None:
                handlers.noop()

            @queue.entrypoint("sleep")
            async def sleep(_job: "Job") -> None:
                await handlers.sleep_async()

            if kind == "noop":
                await queue.run(batch_size=concurrency)
            else:
                await queue.run(batch_size=concurrency // 2, max_concurrent_tasks=concurrency)

    uvloop.run(run())


def _enqueue(url: str, count: int, kind: str) -> float:
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    async def enqueue() -> float:
        async with _connected(url) as connection:
            queries = Queries(AsyncpgDriver(connection))
            await connection.execute("SELECT 1")
            began = time.perf_counter()
            payloads: list[bytes | None] = [b'{"n": %d}' % number for number in range(count)]
            await queries.enqueue([kind] * count, payloads, [0] * count)
            return time.perf_counter() - began

    return asyncio.run(enqueue())


SYSTEM = System(
    name="pgqueuer",
    setup="asyncpg driver, uvloop, `batch_size` = the product's slots and no limit of concurrency; for 20 ms tasks a "
    "limit of 50 and half of it as batch, the most that it allows",
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
