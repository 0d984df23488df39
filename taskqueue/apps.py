"""The app: imports every installed app's ``task_handlers`` once the models are there, and registers checks."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class TaskqueueConfig(AppConfig):
    name = "taskqueue"
    verbose_name = "Task queue"

    def ready(self) -> None:
        from taskqueue import checks  # noqa: F401 - importing registers the system checks

        autodiscover_modules("task_handlers")
