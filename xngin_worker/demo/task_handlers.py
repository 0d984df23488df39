"""The task types of the demo: importing their module registers them."""

from xngin_worker.demo import handlers  # noqa: F401
