"""procrastinate, on its asynchronous psycopg connector with a pool."""

import asyncio
import time
from typing import Any

from bench import handlers
from bench.system import System


def _app(connector: Any) -> Any:
    import procrastinate

    app = procrastinate.App(connector=connector)

    @app.task(name="noop")
    async def noop(n: int) -> None:
        handlers.noop()

    @app.task(name="sleep")
    async def sleep(n: int) -> None:
        await handlers.sleep_async()

    return app


def _create(url: str) -> None:
    import procrastinate

    with _app(procrastinate.SyncPsycopgConnector(conninfo=url)).open() as app:
        app.schema_manager.apply_schema()


def _work(url: str, concurrency: int, _kind: str) -> None:
    import procrastinate

    async def run() -> None:
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=10, max_size=10)
        async with _app(connector).open_async() as app:
            await app.run_worker_async(concurrency=concurrency)

    asyncio.run(run())


def _enqueue(url: str, count: int, kind: str) -> float:
    import procrastinate

    with _app(procrastinate.SyncPsycopgConnector(conninfo=url)).open() as app:
        task = app.tasks[kind]
        began = time.perf_counter()
        task.batch_defer(*({"n": number} for number in range(count)))
        return time.perf_counter() - began


SYSTEM = System(
    name="procrastinate",
    setup="PsycopgConnector, pool of 10 connections, `concurrency` = the product's slots; `batch_defer` to enqueue",
    create=_create,
    work=_work,
    enqueue=_enqueue,
    insert="""INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES ('default', 'noop', '{"n": 1}')""",
    unfinished="""SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status = 'todo')
        OR EXISTS (SELECT FROM procrastinate_jobs WHERE status = 'doing')""",
    done="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    empty="TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers",
    # Without the three events that each would have: that favours it.
    fill="""SET session_replication_role = replica;
        INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, attempts)
        SELECT 'default', 'noop', '{"n": 1}', 'succeeded', 1 FROM generate_series(1, %(count)s);
        RESET session_replication_role""",
    share=0.25,
)
