"""Gunicorn's configuration file for the site: its names are gunicorn's settings."""

from __future__ import annotations

from xngin_worker.environment import current
from xngin_worker.log_format import logging_settings

_environment = current()

wsgi_app = "xngin_worker.wsgi:application"
bind = f"0.0.0.0:{_environment.port}"
workers = _environment.web_concurrency
proc_name = "xngin-web"

# One fixed path for all sites of a machine's account is no place for a socket that controls them.
control_socket_disable = True

# Gunicorn's own lines look like all others. Requests are not logged; a proxy in front knows more about them.
logconfig_dict = logging_settings(level=_environment.log_level, form=_environment.log_format)
logconfig_dict["loggers"] |= {
    "gunicorn.error": {"handlers": [], "level": "NOTSET", "propagate": True},
    "gunicorn.access": {"handlers": [], "level": "ERROR", "propagate": True},
}
