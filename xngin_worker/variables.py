"""The environment variables besides those of the worker's settings: what each means and its default."""

from __future__ import annotations

from dataclasses import dataclass

MODES = ("development", "production")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOG_FORMATS = ("json", "console")
SHORTEST_SECRET_KEY = 32


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable other than those of the worker's settings, as the page about settings tells of it."""

    name: str
    default: str
    meaning: str


VARIABLES: tuple[Variable, ...] = (
    Variable(
        name="DATABASE_URL",
        default="embedded PostgreSQL; required in production",
        meaning="postgresql://user:password@host:port/name?sslmode=require; host may be a socket's folder",
    ),
    Variable(name="XNGIN_ENVIRONMENT", default="development", meaning="development or production"),
    Variable(
        name="XNGIN_SECRET_KEYS",
        default="a random one kept in .data/secret_key; required in production",
        meaning="keys that sign sessions and encrypt the secrets of datasources, newest first, between commas; "
        "32 characters or more in production",
    ),
    Variable(
        name="XNGIN_ALLOWED_HOSTS",
        default="localhost; required in production",
        meaning="names under which the site is reached, between commas",
    ),
    Variable(
        name="XNGIN_CSRF_TRUSTED_ORIGINS",
        default="none",
        meaning="origins such as https://admin.example.com, between commas, whose forms are accepted",
    ),
    Variable(
        name="XNGIN_PG_BIN",
        default="found by itself",
        meaning="folder with the programs of PostgreSQL (initdb, postgres) for the embedded database",
    ),
    Variable(
        name="XNGIN_PGBOUNCER",
        default="no",
        meaning="yes when the database is behind PgBouncer in transaction mode: polling instead of LISTEN",
    ),
    Variable(
        name="XNGIN_WEBHOOK_ALLOWED_NETWORKS",
        default="none",
        meaning="networks in CIDR notation, between commas, that webhooks may reach besides public addresses",
    ),
    Variable(
        name="XNGIN_CA_BUNDLE",
        default="none",
        meaning="file with certificates of authorities that webhooks trust besides the public ones",
    ),
    Variable(
        name="XNGIN_DATASOURCE_ALLOWED_NETWORKS",
        default="none",
        meaning="networks in CIDR notation, between commas, where datasources may lie besides public addresses",
    ),
    Variable(
        name="XNGIN_DUCKDB_FOLDER",
        default=".data/warehouses; none in production",
        meaning="folder with the DuckDB files that datasources may name; none: no DuckDB file is read",
    ),
    Variable(name="XNGIN_LOG_LEVEL", default="INFO", meaning="least level of log lines: " + ", ".join(LOG_LEVELS)),
    Variable(
        name="XNGIN_LOG_FORMAT",
        default="console on a terminal in development, else json",
        meaning="json (an object a line) or console (for reading)",
    ),
    Variable(name="PORT", default="8000", meaning="port of the web process (runweb)"),
    Variable(name="WEB_CONCURRENCY", default="2", meaning="processes of the web server (runweb)"),
)
