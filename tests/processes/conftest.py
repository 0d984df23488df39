"""One server for all tests with real workers, a fresh database for each, and no process that outlives its test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import own_server
from tests.support.own_server import OwnServer, QueueDatabase
from tests.support.worker_process import StartWorker, WorkerProcess


@pytest.fixture(scope="session")
def server() -> Iterator[OwnServer]:
    with own_server.started() as server:
        yield server


@pytest.fixture
def database(server: OwnServer) -> Iterator[QueueDatabase]:
    database = server.create()
    yield database
    database.close()
    server.drop(database.name)


@pytest.fixture
def start_worker(database: QueueDatabase) -> Iterator[StartWorker]:
    """Start a worker on the test's database: short leases, and one slot unless the options say otherwise."""
    workers: list[WorkerProcess] = []

    def start(*options: str, url: str | None = None, **how: Any) -> WorkerProcess:
        short = () if "--lease" in options else ("--lease", "3")
        workers.append(WorkerProcess(url or database.url, *short, *options, **how))
        return workers[-1]

    yield start
    for worker in workers:
        worker.clear_away()


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
