"""Django's own tasks on this queue: ``TASKS = {"default": {"BACKEND": "taskqueue.django_backend.TaskQueueBackend"}}``.

``@task`` builds its backend before the apps are loaded, so nothing here imports a model at import time.
"""

from taskqueue.django_backend.backend import TaskQueueBackend
from taskqueue.django_backend.queue_task import QueueTask

__all__ = ["QueueTask", "TaskQueueBackend"]
