"""What the server does for one of the queue's statements: its generic plan, executed and rolled back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from taskqueue.statements import statement

_PARAMETER = re.compile(r"%\((\w+)\)s")

type Node = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    root: Node

    @property
    def buffers(self) -> int:
        """Pages touched, in memory or not."""
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    @property
    def rows(self) -> int:
        return int(self.root["Actual Rows"])

    def scans_of(self, relation: str) -> set[str]:
        """The ways in which this table is read: the index, or the kind of scan where there is none."""
        return {
            str(node.get("Index Name", node["Node Type"]))
            for node in _nodes(self.root)
            if node.get("Relation Name") == relation and "Scan" in node["Node Type"]
        }


def plan_of(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> Plan:
    """Run ``sql/NAME.sql`` as the queue's sessions do, from a plan that knows no parameter."""
    return plan_of_text(connection, statement(name), parameters)


def plan_of_text(connection: psycopg.Connection[Any], text: str, parameters: dict[str, Any]) -> Plan:
    """The same of a statement that another app keeps."""
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = _PARAMETER.sub(numbered, text)
    values = sql.SQL(", ").join(sql.Literal(parameters[name]) for name in names)
    arguments = sql.SQL("({})").format(values) if names else sql.SQL("")
    with connection.transaction(force_rollback=True):
        connection.execute(f"PREPARE plan_of AS {text}".encode())
        try:
            cursor = connection.execute(
                sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE plan_of{}").format(arguments)
            )
            row = cursor.fetchone()
        finally:
            connection.execute("DEALLOCATE plan_of")
    assert row is not None
    explained = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return Plan(root=explained[0]["Plan"])


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
