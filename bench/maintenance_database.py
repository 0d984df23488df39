"""A database of the bench's server with the product's tables, to which Django is connected as well."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from bench.server import BenchServer

_NAME = "bench_maintenance"


class MaintenanceDatabase:
    def __init__(self, server: BenchServer) -> None:
        self._server = server
        self.url = server.make(_NAME)
        os.environ |= {
            "DATABASE_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "xngin_worker.settings",
            "XNGIN_LOG_LEVEL": "ERROR",
        }
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        with self._server.connection(_NAME) as connection:
            yield connection

    def empty(self) -> None:
        with self.connection() as connection:
            connection.execute("TRUNCATE organizations, draws, arm_assignments CASCADE")

    def drop(self) -> None:
        from django.db import connections

        connections.close_all()
        self._server.drop(_NAME)
