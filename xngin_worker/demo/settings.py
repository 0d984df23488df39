"""The project's settings for the demo's worker and site: its handlers, and what it keeps on this very machine."""

import contextlib as _contextlib
import socket as _socket
from ipaddress import ip_network

from xngin_worker import environment as _environment
from xngin_worker.environment import DATA_FOLDER as _DATA_FOLDER
from xngin_worker.settings import *  # noqa: F403
from xngin_worker.settings import ALLOWED_HOSTS, DATABASES, EXPERIMENTS, INSTALLED_APPS, TASKQUEUE

INSTALLED_APPS = [*INSTALLED_APPS, "xngin_worker.demo"]
ALLOWED_HOSTS = [*ALLOWED_HOSTS, "127.0.0.1"]
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
TASKQUEUE = {
    **TASKQUEUE,
    "WEBHOOK_ALLOWED_NETWORKS": (*_environment.current().webhook_allowed_networks, *_LOOPBACK),
}
# One of the demo's warehouses is a schema of the database itself, wherever that is.
_host = DATABASES["default"].get("HOST", "")
_of_database = []
if _host and not _host.startswith("/"):
    with _contextlib.suppress(OSError):
        _of_database = [ip_network(str(found[4][0]).partition("%")[0]) for found in _socket.getaddrinfo(_host, None)]
EXPERIMENTS = {
    **EXPERIMENTS,
    "DATASOURCE_ALLOWED_NETWORKS": (*EXPERIMENTS["DATASOURCE_ALLOWED_NETWORKS"], *_LOOPBACK, *_of_database),
    "DUCKDB_FOLDER": _DATA_FOLDER / "demo",
}
