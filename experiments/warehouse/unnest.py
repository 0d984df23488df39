"""The one JSON parameter as rows (participant, arm, cluster), in each engine's own words."""

from sqlglot import exp, parse_one

from experiments.warehouse.dialects import Dialect

# Constant texts without any name of a customer's. Fields: participant, arm, and (the last one) cluster.
_ROWS = {
    Dialect.POSTGRESQL: """
        SELECT e.p, e.a, e.c FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS e(p TEXT, a INTEGER, c BIGINT)""",
    # SUPER is unnested by naming its path in FROM; a text in it is cast, else it would stay SUPER.
    Dialect.REDSHIFT: """
        SELECT CAST(e.p AS VARCHAR(MAX)) AS p, CAST(e.a AS INTEGER) AS a, CAST(e.c AS BIGINT) AS c
        FROM (SELECT JSON_PARSE(?) AS j) AS s, s.j AS e""",
    Dialect.BIGQUERY: """
        SELECT JSON_VALUE(e, '$.p') AS p, CAST(JSON_VALUE(e, '$.a') AS INT64) AS a,
            CAST(JSON_VALUE(e, '$.c') AS INT64) AS c
        FROM UNNEST(JSON_QUERY_ARRAY(@pairs, '$')) AS e""",
    # FLATTEN's column is called VALUE in capitals, and quoted names are taken as they are.
    Dialect.SNOWFLAKE: """
        SELECT CAST(GET(e.VALUE, 'p') AS VARCHAR) AS p, CAST(GET(e.VALUE, 'a') AS INTEGER) AS a,
            CAST(GET(e.VALUE, 'c') AS BIGINT) AS c
        FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) AS e""",
    Dialect.DATABRICKS: """
        SELECT e.p, e.a, e.c FROM INLINE(FROM_JSON(:pairs, 'array<struct<p:string,a:int,c:bigint>>')) AS e(p, a, c)""",
    Dialect.SPARK: """
        SELECT e.p, e.a, e.c FROM INLINE(FROM_JSON(:pairs, 'array<struct<p:string,a:int,c:bigint>>')) AS e(p, a, c)""",
    Dialect.TRINO: """
        SELECT e.p, e.a, e.c
        FROM UNNEST(CAST(JSON_PARSE(?) AS ARRAY(ROW(p VARCHAR, a INTEGER, c BIGINT)))) AS e(p, a, c)""",
    Dialect.DUCKDB: """
        SELECT s.e.p, s.e.a, s.e.c
        FROM (SELECT UNNEST(FROM_JSON(CAST(? AS JSON), '[{"p":"VARCHAR","a":"INTEGER","c":"BIGINT"}]')) AS e) AS s""",
}


def sent_rows(dialect: Dialect) -> exp.Select:
    """A query with the columns ``p``, ``a`` and ``c`` (NULL without clusters); it holds the only placeholder."""
    tree = parse_one(_ROWS[dialect], dialect=dialect.value)
    assert isinstance(tree, exp.Select)  # noqa: S101  (the constants above are queries)
    for identifier in tree.find_all(exp.Identifier):
        identifier.set("quoted", True)
    return tree
