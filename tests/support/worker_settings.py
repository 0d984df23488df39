"""The project's settings with the handlers that tests need."""

from xngin_worker.settings import *  # noqa: F403
from xngin_worker.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.work"]
