"""The SQL dialects that queries are rendered for, named as ``sqlglot`` names them."""

from enum import StrEnum


class Dialect(StrEnum):
    POSTGRESQL = "postgres"
    REDSHIFT = "redshift"
    BIGQUERY = "bigquery"
    SNOWFLAKE = "snowflake"
    DATABRICKS = "databricks"
    SPARK = "spark"
    TRINO = "trino"
    DUCKDB = "duckdb"
