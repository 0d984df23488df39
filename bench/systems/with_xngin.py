"""The product, composed as `manage.py runworker` does it."""

import os
import time

from bench import handlers
from bench.system import System


def _django(url: str) -> None:
    os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "xngin_worker.settings", "XNGIN_LOG_LEVEL": "WARNING"}
    import django

    django.setup()


def _create(url: str) -> None:
    _django(url)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _work(url: str, concurrency: int, _kind: str) -> None:
    _django(url)
    from taskqueue.handlers import register_handler
    from xngin_worker.process.composition import compose
    from xngin_worker.process.signals import pipe
    from xngin_worker.worker_settings import settle

    register_handler("bench.noop", lambda _payload: handlers.noop())
    register_handler("bench.sleep", lambda _payload: handlers.sleep())
    pipe.install()
    compose(settle({"task_concurrency": concurrency}), pgbouncer=False, pipe=pipe, jobs={}).run()


def _enqueue(url: str, count: int, kind: str) -> float:
    _django(url)
    from django.db import connection

    from taskqueue.enqueueing import NewTask, enqueue_many

    connection.ensure_connection()
    began = time.perf_counter()
    enqueue_many(NewTask(task_type=f"bench.{kind}", payload={"n": number}) for number in range(count))
    return time.perf_counter() - began


SYSTEM = System(
    name="xngin",
    setup="`runworker`'s own composition, slots (threads) as given, one claiming connection; `enqueue_many` to enqueue",
    create=_create,
    work=_work,
    enqueue=_enqueue,
    insert="""INSERT INTO tasks (task_type, payload) VALUES ('bench.noop', '{"n": 1}')""",
    unfinished="""SELECT EXISTS (SELECT FROM tasks WHERE status = 'pending')
        OR EXISTS (SELECT FROM tasks WHERE status = 'running')""",
    done="SELECT count(*) FROM tasks WHERE status = 'success'",
    empty="TRUNCATE tasks, task_attempts, task_transitions",
    fill="""INSERT INTO tasks (task_type, payload, status, attempt, started_at, finished_at)
        SELECT 'bench.noop', '{"n": 1}', 'success', 1, now(), now() FROM generate_series(1, %(count)s)""",
)
