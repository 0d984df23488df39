"""From a config to an open session. The host or the file is judged here, whatever the engine, or by the engine right
before it connects with the judge it is given here."""

from __future__ import annotations

from functools import partial

from experiments.warehouse.addresses import Rules
from experiments.warehouse.config import (
    BigQueryConfig,
    DatabricksConfig,
    DuckDBConfig,
    PostgreSQLConfig,
    RedshiftConfig,
    SnowflakeConfig,
    SparkConfig,
    TrinoConfig,
    WarehouseConfig,
)
from experiments.warehouse.engines.bigquery import BigQueryWarehouse
from experiments.warehouse.engines.databricks import DatabricksWarehouse
from experiments.warehouse.engines.duckdb import DuckDBWarehouse
from experiments.warehouse.engines.postgresql import PostgreSQLWarehouse
from experiments.warehouse.engines.redshift import RedshiftWarehouse
from experiments.warehouse.engines.snowflake import SnowflakeWarehouse
from experiments.warehouse.engines.spark import SparkWarehouse
from experiments.warehouse.engines.trino import TrinoWarehouse
from experiments.warehouse.session import Limits, Warehouse

_USUAL = Limits()


def open_warehouse(config: WarehouseConfig, *, rules: Rules, limits: Limits = _USUAL) -> Warehouse:
    """Raises ``DatasourceError``: ``address_refused``, ``driver_missing``, ``connection_failed``, ``permission_denied``
    or ``timeout``; ``config_invalid`` for a key that cannot be read."""
    match config:
        case DuckDBConfig():
            return DuckDBWarehouse(rules.duckdb_file(config.path), limits=limits)
        case PostgreSQLConfig():
            return PostgreSQLWarehouse(config, addresses=_socket_or_addresses(config.host, rules), limits=limits)
        case BigQueryConfig():
            return BigQueryWarehouse(config, limits=limits)
        case DatabricksConfig():
            return DatabricksWarehouse(config, judge=partial(_addresses, config.host, rules), limits=limits)
        case RedshiftConfig():
            return RedshiftWarehouse(config, judge=partial(_addresses, config.host, rules), limits=limits)
        case SnowflakeConfig():
            return SnowflakeWarehouse(config, judge=partial(_addresses, config.host, rules), limits=limits)
        case SparkConfig():
            return SparkWarehouse(config, judge=partial(_addresses, config.host, rules), limits=limits)
        case TrinoConfig():
            return TrinoWarehouse(config, judge=partial(_addresses, config.host, rules), limits=limits)


def _socket_or_addresses(host: str, rules: Rules) -> tuple[str, ...]:
    """None for a socket in the file system."""
    if host.startswith("/"):
        rules.check_socket(host)
        return ()
    return _addresses(host, rules)


def _addresses(host: str, rules: Rules) -> tuple[str, ...]:
    return tuple(str(address) for address in rules.addresses_of(host))
