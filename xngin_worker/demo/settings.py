"""The project's settings for the demo's worker and site: its handlers, and webhooks to this very machine."""

from ipaddress import ip_network

from xngin_worker import environment as _environment
from xngin_worker.settings import *  # noqa: F403
from xngin_worker.settings import ALLOWED_HOSTS, INSTALLED_APPS, TASKQUEUE

INSTALLED_APPS = [*INSTALLED_APPS, "xngin_worker.demo"]
ALLOWED_HOSTS = [*ALLOWED_HOSTS, "127.0.0.1"]
TASKQUEUE = {
    **TASKQUEUE,
    "WEBHOOK_ALLOWED_NETWORKS": (*_environment.current().webhook_allowed_networks, ip_network("127.0.0.0/8")),
}
