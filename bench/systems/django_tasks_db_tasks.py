"""The tasks as django-tasks-db wants them: functions of a module, found by their path."""

from django.tasks import task

from bench import handlers


@task
def noop(n: int) -> None:
    handlers.noop()


@task
def sleep(n: int) -> None:
    handlers.sleep()
