"""What Spark's catalogs say of tables, the same for Spark and Databricks: SHOW TABLES and DESCRIBE TABLE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from experiments.warehouse.columns import Column
from experiments.warehouse.engines.described import column_of
from experiments.warehouse.names import Relation


def show_tables(catalog: str, schema: str) -> str:
    return f"SHOW TABLES IN {quoted(catalog)}.{quoted(schema)}"


def relations_of(rows: Iterable[Sequence[Any]], *, catalog: str, schema: str) -> tuple[Relation, ...]:
    """Of lines (schema, name, is temporary); a temporary view belongs to no schema."""
    return tuple(Relation(path=(catalog, schema, str(row[1]))) for row in rows if not row[2])


def describe_table(relation: Relation) -> str:
    return f"DESCRIBE TABLE {'.'.join(quoted(part) for part in relation.path)}"


def columns_of(rows: Iterable[Sequence[Any]]) -> tuple[Column, ...]:
    """Of lines (name, type, comment); the columns end where a line has no type, and partitions are told again."""
    columns: list[Column] = []
    for name, native, *_ in rows:
        if not native:
            break
        columns.append(column_of(str(name), str(native)))
    return tuple(columns)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
