"""From a config to an open session. The host or the file is judged here, whatever the engine."""

from __future__ import annotations

from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import DuckDBConfig, PostgreSQLConfig, WarehouseConfig
from experiments.warehouse.engines.duckdb import DuckDBWarehouse
from experiments.warehouse.engines.postgresql import PostgreSQLWarehouse
from experiments.warehouse.session import Limits, Warehouse

_USUAL = Limits()


def open_warehouse(config: WarehouseConfig, *, rules: Rules, limits: Limits = _USUAL) -> Warehouse:
    """Raises ``DatasourceError``: ``address_refused``, ``driver_missing``, ``connection_failed``, ``permission_denied``
    or ``timeout``."""
    match config:
        case DuckDBConfig():
            return DuckDBWarehouse(rules.duckdb_file(config.path), limits=limits)
        case PostgreSQLConfig():
            return PostgreSQLWarehouse(config, addresses=_judged(config.host, rules), limits=limits)


def _judged(host: str, rules: Rules) -> tuple[str, ...]:
    """None for a socket in the file system."""
    if host.startswith("/"):
        rules.check_socket(host)
        return ()
    return tuple(str(address) for address in rules.addresses_of(host))
