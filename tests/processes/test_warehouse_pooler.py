"""A warehouse behind PgBouncer in transaction mode: sessions that share a server's connection do not meet there."""

from __future__ import annotations

import threading
import time

import pytest
from psycopg.conninfo import conninfo_to_dict

from experiments.errors import DatasourceError
from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import parse_config
from experiments.warehouse.opening import open_warehouse
from experiments.warehouse.session import Limits
from tests.support import pooler
from tests.support.own_server import OwnServer, QueueDatabase
from tests.support.warehouses import LOOPBACK

_SHOWN = "SELECT current_setting('statement_timeout'), current_setting('transaction_read_only')"


def test_settings_and_cancellations_reach_their_own_session_alone(server: OwnServer, database: QueueDatabase) -> None:
    with pooler.started(server, database.name, default_pool_size="1") as url:
        there = conninfo_to_dict(url)
        config = parse_config(
            {
                "type": "postgresql",
                "host": str(there["host"]),
                "port": int(str(there["port"])),
                "database": str(there["dbname"]),
                "user": str(there["user"]),
                "sslmode": "disable",
            }
        )
        rules = Rules(allowed_networks=LOOPBACK)
        with (
            open_warehouse(config, rules=rules, limits=Limits(statement_seconds=7)) as first,
            open_warehouse(config, rules=rules, limits=Limits(statement_seconds=9)) as second,
        ):
            for _ in range(3):
                assert first.fetch(_SHOWN) == [("7s", "on")]
                assert second.fetch(_SHOWN) == [("9s", "on")]
            threading.Timer(0.2, first.cancel).start()
            before = time.monotonic()
            with pytest.raises(DatasourceError) as fault:
                first.fetch("SELECT 1 FROM pg_sleep(60)")
            assert fault.value.code == "cancelled"
            assert time.monotonic() - before < 5
            assert second.fetch(_SHOWN) == [("9s", "on")]
