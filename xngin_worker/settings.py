"""Django's settings, all of them from the one value that `environment.py` reads."""

from __future__ import annotations

from typing import Any

from django.utils.csp import CSP

from xngin_worker import environment as _environment
from xngin_worker import log_format as _log_format
from xngin_worker.worker_settings import settle as _settle

_environ = _environment.current()

# Never on: DEBUG keeps every query in memory, and a worker runs for weeks. A page that fails is in the log.
DEBUG = False
SECRET_KEY, *SECRET_KEY_FALLBACKS = _environ.secret_keys
ALLOWED_HOSTS = list(_environ.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(_environ.csrf_trusted_origins)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "pgtrigger",
    "taskqueue.apps.TaskqueueConfig",
    "experiments.apps.ExperimentsConfig",
    "xngin_worker.apps.XnginWorkerConfig",
]

MIDDLEWARE = [
    "xngin_worker.web_health.health_middleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "xngin_worker.urls"
WSGI_APPLICATION = "xngin_worker.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_environment.PROJECT_FOLDER / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def _database() -> dict[str, Any]:
    common: dict[str, Any] = {
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": _environ.pgbouncer,
    }
    address = _environ.database
    if address is None:
        return {
            "ENGINE": "xngin_worker.embedded_backend",
            "NAME": "xngin",
            "EMBEDDED_DATA_FOLDER": _environment.DATA_FOLDER,
            "EMBEDDED_BINARIES": _environ.pg_bin,
            **common,
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": address.name,
        "USER": address.user,
        "PASSWORD": address.password,
        "HOST": address.host,
        "PORT": address.port,
        "OPTIONS": dict(address.options),
        **common,
    }


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# What the task queue takes from the environment, which it never reads itself.
TASKQUEUE = {
    "PGBOUNCER": _environ.pgbouncer,
    "WEBHOOK_ALLOWED_NETWORKS": _environ.webhook_allowed_networks,
    "CA_BUNDLE": _environ.ca_bundle,
}

# Django's own `@task` on this queue.
TASKS = {"default": {"BACKEND": "taskqueue.django_backend.TaskQueueBackend"}}

# What experiments take from it: keys that encrypt the secrets of datasources, what datasources may reach, and the times
# of maintenance jobs where they are looked at or run by hand. Options of `runworker` win in a worker.
_worker = _settle(_environ.worker)
EXPERIMENTS: dict[str, Any] = {
    "SECRET_KEYS": _environ.secret_keys,
    "DATASOURCE_ALLOWED_NETWORKS": _environ.datasource_allowed_networks,
    "DUCKDB_FOLDER": _environ.duckdb_folder,
    "JOBS": "experiments.jobs.registry.JOBS",
    "SNAPSHOT_INTERVAL_SECONDS": _worker.snapshot_interval_seconds,
    "PULL_INTERVAL_SECONDS": _worker.pull_interval_seconds,
    "JOB_TIMEOUT_SECONDS": _worker.job_timeout_seconds,
    "LEASE_SECONDS": _worker.lease_seconds,
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en-us"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Served by the web process itself, straight from the apps, so nothing has to be collected first.
STATIC_URL = "/static/"
STATIC_ROOT = _environment.PROJECT_FOLDER / "staticfiles"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = not _environ.production

LOGGING_CONFIG = "xngin_worker.log_format.configure"
LOGGING = _log_format.logging_settings(level=_environ.log_level, form=_environ.log_format)

SECURE_CSP = {
    "default-src": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
    "object-src": [CSP.NONE],
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True

if _environ.production:
    # TLS ends at a proxy, which says so in this header; it must drop the header when a client sends it.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 3600
    SILENCED_SYSTEM_CHECKS = [
        # Subdomains and browsers' preload lists are the operator's to decide about, not this project's.
        "security.W005",
        "security.W021",
        # The keys were judged before; 32 random characters suffice, Django asks for 50.
        "security.W009",
        "security.W025",
    ]
