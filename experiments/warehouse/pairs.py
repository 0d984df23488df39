"""The assignments as they are sent: chunks of (participant, arm, cluster), each chunk one JSON text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii

from experiments.warehouse.dialects import Dialect
from experiments.warehouse.identifiers import IdRule, id_rule

__all__ = ["Chunk", "IdRule", "Pair", "PairLimits", "chunks", "encode", "id_rule", "limits"]

# Canonical id (of ``IdRule.canonical``), arm, and cluster or None; a million of them pass through, so plain tuples.
type Pair = tuple[str, int, int | None]


@dataclass(frozen=True, kw_only=True)
class PairLimits:
    """The most that one parameter may hold. ``bytes`` are those of the JSON text, which is pure ASCII."""

    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One parameter of a query, and how many assignments are in it."""

    parameter: str
    rows: int


_ROWS = 25_000
_LIMITS = {
    # A parameter may have 1 GB there; 25,000 rows keep small what the engine hashes and what a cancelled query wastes.
    Dialect.POSTGRESQL: PairLimits(rows=_ROWS, bytes=8_000_000),
    Dialect.DUCKDB: PairLimits(rows=_ROWS, bytes=8_000_000),
    # VARCHAR, the type of the parameter, ends at 65,535 bytes.
    Dialect.REDSHIFT: PairLimits(rows=_ROWS, bytes=65_000),
    # A request ends at 10 MB, the query and its envelope included, and JSON in JSON doubles its quotation marks.
    Dialect.BIGQUERY: PairLimits(rows=_ROWS, bytes=5_000_000),
    # A statement should stay below 1 MB with the values bound to it: longer ones are cut in the history of queries.
    Dialect.SNOWFLAKE: PairLimits(rows=_ROWS, bytes=900_000),
    # Kept below 1 MB as on other services whose driver sends the parameter inside the statement's request.
    Dialect.DATABRICKS: PairLimits(rows=_ROWS, bytes=900_000),
    # A message of Spark Connect ends at 4 MB where a gateway keeps gRPC's own default.
    Dialect.SPARK: PairLimits(rows=_ROWS, bytes=3_000_000),
    # The client writes the parameter into the text, and query.max-length is 1,000,000 characters: the query's own too.
    Dialect.TRINO: PairLimits(rows=_ROWS, bytes=800_000),
}


def limits(dialect: Dialect) -> PairLimits:
    return _LIMITS[dialect]


def encode(rows: Iterable[Pair]) -> str:
    """One JSON text, ASCII without apostrophes: a driver that writes it into the statement has none to escape."""
    return f"[{','.join(map(_object, rows))}]"


def chunks(rows: Iterable[Pair], limits: PairLimits) -> Iterator[Chunk]:
    """``rows`` in their order, cut where a limit is reached; memory holds one chunk.

    Raises ValueError for an id that fills a parameter alone (a participant's id is much shorter).
    """
    objects: list[str] = []
    size = 2
    for row in rows:
        written = _object(row)
        if len(written) + 2 > limits.bytes:
            raise ValueError(f"the id of a participant has {len(row[0]):,} characters, too many for one parameter")
        if objects and (len(objects) >= limits.rows or size + len(written) > limits.bytes):
            yield Chunk(parameter=f"[{','.join(objects)}]", rows=len(objects))
            objects, size = [], 2
        objects.append(written)
        size += len(written) + 1  # the comma
    if objects:
        yield Chunk(parameter=f"[{','.join(objects)}]", rows=len(objects))


def _object(row: Pair) -> str:
    participant, arm, cluster = row
    text = encode_basestring_ascii(participant)
    if "'" in text:
        text = text.replace("'", "\\u0027")
    return f'{{"p":{text},"a":{arm}}}' if cluster is None else f'{{"p":{text},"a":{arm},"c":{cluster}}}'
