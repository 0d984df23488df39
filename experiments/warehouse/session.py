"""A session with a warehouse as everybody else sees it: read-only, bounded in time, cancelled from any thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from experiments.errors import DatasourceError
from experiments.warehouse.columns import Column, Table
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.names import Relation, find_relation


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one session may take. ``rows`` is the most that one query may return: sums are few, and outcomes no more
    than were asked for."""

    connect_seconds: float = 10.0
    statement_seconds: float = 300.0
    lock_seconds: float = 10.0
    idle_seconds: float = 300.0
    rows: int = 200_000
    memory_megabytes: int = 1024


class Warehouse(ABC):
    """Use as a context manager. One thread at a time, but for ``cancel``."""

    dialect: Dialect

    @abstractmethod
    def relations(self) -> tuple[Relation, ...]:
        """Tables, views and the like that this session may see, without the system's own."""

    @abstractmethod
    def columns(self, relation: Relation) -> tuple[Column, ...]:
        """In the order of the table; only those whose values may be read, where the engine tells."""

    @abstractmethod
    def fetch(self, sql: str, parameter: str | None = None) -> list[tuple[object, ...]]:
        """All rows of one query, whose only placeholder, if any, is that of ``parameter``.

        Raises ``DatasourceError``: ``timeout``, ``cancelled``, ``connection_failed``, ``permission_denied``,
        ``query_failed``.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Stop the running query, and refuse further ones. From any thread; returns soon."""

    @abstractmethod
    def close(self) -> None:
        """At once, also after a failure. Closing twice is allowed."""

    def tables(self) -> tuple[str, ...]:
        """Names as ``describe`` takes them."""
        return tuple(relation.name for relation in self.relations())

    def describe(self, name: str) -> Table:
        """Raises ``DatasourceError`` (``table_missing``, ``ambiguous_name``) with what exists."""
        relation = find_relation(self.relations(), name)
        return Table(path=relation.path, columns=self.columns(relation))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def rows_within(rows: Iterable[tuple[object, ...]], limits: Limits) -> list[tuple[object, ...]]:
    """Raises ``DatasourceError`` for more than ``limits.rows``, before they are all in memory."""
    taken: list[tuple[object, ...]] = []
    for row in rows:
        if len(taken) >= limits.rows:
            raise DatasourceError(f"the query returned more than {limits.rows:,} rows", code="query_failed")
        taken.append(row)
    return taken
