"""The SQL dialects that queries are rendered for, named as ``sqlglot`` names them."""

from enum import StrEnum

import sqlglot


class Dialect(StrEnum):
    POSTGRESQL = "postgres"
    REDSHIFT = "redshift"
    BIGQUERY = "bigquery"
    SNOWFLAKE = "snowflake"
    DATABRICKS = "databricks"
    SPARK = "spark"
    TRINO = "trino"
    DUCKDB = "duckdb"


# The library loads a dialect at its first use, and registers it before it is complete: of two jobs that begin at the
# same moment, the second would build its query with half of another dialect's rules. An import has a lock.
for _dialect in Dialect:
    sqlglot.Dialect.get_or_raise(_dialect.value)
