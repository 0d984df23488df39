"""The app: imports every installed app's ``task_handlers`` and ``tasks`` once the models exist; registers checks."""

from importlib import import_module
from traceback import extract_tb

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

from taskqueue.django_backend import registration
from taskqueue.errors import HandlerConfigurationError

# What importing these registers: handlers of tasks, and rules of reconciliation.
_MODULES = ("task_handlers", "reconciliation_rules")


class TaskqueueConfig(AppConfig):
    name = "taskqueue"
    verbose_name = "Task queue"

    def ready(self) -> None:
        from taskqueue import checks  # noqa: F401 - importing registers the system checks

        for module in _MODULES:
            for app in apps.get_app_configs():
                if app.module is not None and module_has_submodule(app.module, module):
                    _import(f"{app.name}.{module}")
        for path in registration.modules():
            _import(path)


def _import(module: str) -> None:
    """Raises ``HandlerConfigurationError`` in one line, with the place in the app's own code."""
    try:
        import_module(module)
    except HandlerConfigurationError:
        raise
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        raise HandlerConfigurationError(
            f"{module} cannot be imported: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        ) from error
