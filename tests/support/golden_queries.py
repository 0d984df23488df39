"""Every query that is sent, for every dialect, over a table whose names are as awkward as names can be."""

from __future__ import annotations

from pathlib import Path

from experiments.warehouse.columns import Column, Family, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.query import arm_sums, outcomes

FOLDER = Path(__file__).parent.parent / "golden" / "sql"

_NATIVE = {
    Dialect.POSTGRESQL: {"integer": "bigint", "decimal": "numeric(20,4)", "double": "double precision", "text": "text"},
    Dialect.REDSHIFT: {
        "integer": "bigint",
        "decimal": "numeric(20,4)",
        "double": "double precision",
        "text": "character varying(64)",
    },
    Dialect.BIGQUERY: {"integer": "INT64", "decimal": "NUMERIC", "double": "FLOAT64", "text": "STRING"},
    Dialect.SNOWFLAKE: {"integer": "NUMBER(38,0)", "decimal": "NUMBER(20,4)", "double": "FLOAT", "text": "TEXT"},
    Dialect.DATABRICKS: {"integer": "bigint", "decimal": "decimal(20,4)", "double": "double", "text": "string"},
    Dialect.SPARK: {"integer": "bigint", "decimal": "decimal(20,4)", "double": "double", "text": "string"},
    Dialect.TRINO: {"integer": "bigint", "decimal": "decimal(20,4)", "double": "double", "text": "varchar"},
    Dialect.DUCKDB: {"integer": "BIGINT", "decimal": "DECIMAL(20,4)", "double": "DOUBLE", "text": "VARCHAR"},
}
# The other engines keep UUIDs in texts.
_WITH_UUID = (Dialect.POSTGRESQL, Dialect.TRINO, Dialect.DUCKDB)
_FIXED = {
    Dialect.POSTGRESQL: "character(12)",
    Dialect.REDSHIFT: "character(12)",
    Dialect.DATABRICKS: "char(12)",
    Dialect.SPARK: "char(12)",
    Dialect.TRINO: "char(12)",
}
_OUTER = 'Order\'s "Data" `x`\\'


def queries(dialect: Dialect) -> dict[str, str]:
    """Title and text of each query."""
    native = _NATIVE[dialect]
    flag = Column(name="is %paid; --", family=Family.BOOLEAN, native="boolean")
    wide = 38 if dialect is Dialect.SNOWFLAKE else None
    count = Column(name="select", family=Family.INTEGER, native=native["integer"], precision=wide, scale=wide and 0)
    precision, scale = (38, 9) if dialect is Dialect.BIGQUERY else (20, 4)
    money = Column(name='a"b`c\\d', family=Family.DECIMAL, native=native["decimal"], precision=precision, scale=scale)
    score = Column(name="größe\n1", family=Family.DOUBLE, native=native["double"])
    note = Column(name="k", family=Family.TEXT, native=native["text"])
    metrics = (flag, count, money, score)
    number_id = Column(name="User ID", family=Family.INTEGER, native=native["integer"], precision=wide)
    table = Table(path=(_OUTER, "Table 1; DROP"), columns=(number_id, *metrics, note))
    ids = [
        Column(name="id", family=Family.TEXT, native=native["text"]),
        Column(name="id", family=Family.DECIMAL, native=native["decimal"], precision=precision, scale=scale),
        Column(name="id", family=Family.DOUBLE, native=native["double"]),
    ]
    if dialect in _WITH_UUID:
        ids.append(Column(name="id", family=Family.UUID, native="uuid"))
    if dialect in _FIXED:
        ids.append(Column(name="id", family=Family.TEXT, native=_FIXED[dialect]))
    found = {
        "sums by arm, all families of metrics": arm_sums(
            dialect=dialect, table=table, id_column=number_id, metrics=metrics, clustered=False
        ).sql,
        "sums by cluster": arm_sums(
            dialect=dialect, table=table, id_column=number_id, metrics=[score], clustered=True
        ).sql,
    }
    by_text = Table(path=("t",), columns=(ids[0], score))
    found["sums by arm, ids of a text column"] = arm_sums(
        dialect=dialect, table=by_text, id_column=ids[0], metrics=[score], clustered=False
    ).sql
    for outcome in (flag, count, money, score, note):
        found[f"outcomes of a {outcome.family} column"] = outcomes(
            dialect=dialect, table=table, id_column=number_id, outcome=outcome
        ).sql
    for column in ids:
        narrow = Table(path=("t",), columns=(column, count))
        found[f"outcomes by ids of type {column.native}"] = outcomes(
            dialect=dialect, table=narrow, id_column=column, outcome=count
        ).sql
    return found


def golden_text(dialect: Dialect) -> str:
    """The content of the golden file of ``dialect``."""
    return "\n".join(f"-- {title}\n{text};\n" for title, text in queries(dialect).items())
