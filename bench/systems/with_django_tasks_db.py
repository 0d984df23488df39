"""django-tasks-db: one task after the other in each process, polling."""

import time

from psycopg.conninfo import conninfo_to_dict

from bench.system import System


def _django(url: str) -> None:
    import django
    from django.conf import settings

    parts = conninfo_to_dict(url)
    settings.configure(
        SECRET_KEY="bench",
        USE_TZ=True,
        INSTALLED_APPS=["django_tasks_db"],
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts["dbname"],
                "USER": parts["user"],
                "HOST": parts["host"],
                "PORT": parts["port"],
                "CONN_MAX_AGE": None,
            }
        },
    )
    django.setup()


def _create(url: str) -> None:
    _django(url)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _work(url: str, _concurrency: int, _kind: str) -> None:
    _django(url)
    from django.core.management import call_command

    call_command("db_worker", startup_delay=False, verbosity=0)


def _enqueue(url: str, count: int, kind: str) -> float:
    _django(url)
    from django.db import transaction

    from bench.systems import django_tasks_db_tasks

    task = getattr(django_tasks_db_tasks, kind)
    began = time.perf_counter()
    with transaction.atomic():
        for number in range(count):
            task.enqueue(n=number)
    return time.perf_counter() - began


SYSTEM = System(
    name="django-tasks-db",
    setup="`db_worker`, persistent connection, its default poll interval of 1 s, one task at a time; no call for many "
    "tasks, so they are enqueued one by one in one transaction",
    create=_create,
    work=_work,
    enqueue=_enqueue,
    insert="""INSERT INTO django_tasks_database_dbtaskresult (id, status, enqueued_at, args_kwargs, priority, task_path,
            worker_ids, queue_name, backend_name, run_after, exception_class_path, traceback)
        VALUES (gen_random_uuid(), 'READY', now(), '{"args": [], "kwargs": {"n": 1}}', 0,
            'bench.systems.django_tasks_db_tasks.noop', '[]', 'default', 'default', '9999-01-01T00:00:00Z', '', '')""",
    unfinished="""SELECT EXISTS
        (SELECT FROM django_tasks_database_dbtaskresult WHERE status IN ('READY', 'RUNNING'))""",
    done="SELECT count(*) FROM django_tasks_database_dbtaskresult WHERE status = 'SUCCESSFUL'",
    empty="TRUNCATE django_tasks_database_dbtaskresult",
    fill="""INSERT INTO django_tasks_database_dbtaskresult
            (id, status, enqueued_at, started_at, finished_at, args_kwargs,
            priority, task_path, worker_ids, queue_name, backend_name, run_after, exception_class_path, traceback)
        SELECT gen_random_uuid(), 'SUCCESSFUL', now(), now(), now(), '{"args": [], "kwargs": {"n": 1}}', 0,
            'bench.systems.django_tasks_db_tasks.noop', '["w"]', 'default', 'default', '9999-01-01T00:00:00Z', '', ''
        FROM generate_series(1, %(count)s)""",
    share=0.1,
    share_of_sleeps=0.05,
    share_of_enqueued=0.1,
)
