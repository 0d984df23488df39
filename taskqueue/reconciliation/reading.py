"""The read: every check against one view of the database, in a transaction that cannot write.

A reconciliation is itself one long read, so this is the one transaction that stays open while Python judges rows. Each
statement is bounded by ``rule_seconds``, and so is each check as a whole where it runs once for each scope.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from psycopg.rows import dict_row

from taskqueue.errors import ReconciliationError
from taskqueue.reconciliation.findings import KEPT_PER_RULE, Reading, RuleResult, Tally
from taskqueue.reconciliation.rules import Check, Registry, Row, registry

RULE_SECONDS = 900.0
_CHUNK = 2_000
_CURSOR = "reconciliation"


@contextmanager
def one_view(alias: str, *, rule_seconds: float) -> Iterator[None]:
    """A transaction of its own that sees one instant and in which PostgreSQL refuses every write.

    Raises ``ReconciliationError`` inside another transaction, whose view and rights it would inherit.
    """
    connection = connections[alias]
    if connection.in_atomic_block:
        raise ReconciliationError("in_transaction", "a reconciliation needs a transaction of its own; end yours first")
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(
            "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true),"
            " set_config('idle_in_transaction_session_timeout', '60s', true)",
            [f"{round(rule_seconds * 1000)}ms"],
        )
        yield


def collect(
    alias: str,
    *,
    rules: Collection[str] | None = None,
    kept: int = KEPT_PER_RULE,
    rule_seconds: float = RULE_SECONDS,
    stopping: Callable[[], bool] = lambda: False,
    known: Registry = registry,
) -> Reading:
    """Run the checks in the transaction that is open. ``stopping`` is asked between chunks.

    Raises Django's database errors; ``ReconciliationError`` for an unknown rule, a check that takes too long and
    a caller that stops.
    """
    checks = known.checks(rules)
    connection: Any = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        ((snapshot_at,),) = cursor.fetchall()
    tallies: dict[str, Tally] = {}
    results: list[RuleResult] = []
    for check in checks:
        wanted = [rule for rule in check.rules if rules is None or rule.name in rules]
        own = {rule.name: Tally(rule, kept=kept) for rule in wanted}
        with connection.wrap_database_errors:
            rows = _judge(connection.connection, check, own, time.monotonic() + rule_seconds, stopping)
        tallies |= own
        results += [
            RuleResult(rule=name, rows=rows, found=tally.count, kept=len(tally.findings)) for name, tally in own.items()
        ]
    return Reading(
        snapshot_at=snapshot_at,
        results=tuple(results),
        findings=tuple(finding for tally in tallies.values() for finding in tally.findings),
    )


def _judge(raw: Any, check: Check, tallies: dict[str, Tally], deadline: float, stopping: Callable[[], bool]) -> int:
    """How many rows were looked at."""
    looked = 0

    def go_on() -> None:
        if stopping():
            raise ReconciliationError("stopped", "the reconciliation was told to stop; there is no report")
        if time.monotonic() > deadline:
            raise ReconciliationError("rule_timeout", f"{check.rules[0].name} took too long; there is no report")

    def counted(chunks: Iterator[list[Row]]) -> Iterator[Row]:
        nonlocal looked
        for chunk in chunks:
            go_on()
            looked += len(chunk)
            yield from chunk

    for scope in _scopes(raw, check):
        go_on()
        rows = _chunks(raw, check.statement, {**check.parameters, **scope}, name=_CURSOR)
        for breach in check.judge(counted(rows)):
            if breach.rule in tallies:
                tallies[breach.rule].add(breach)
    return looked


def _scopes(raw: Any, check: Check) -> Iterator[dict[str, Any]]:
    if check.each is None:
        yield {}
        return
    for chunk in _chunks(raw, check.each, dict(check.parameters), name=f"{_CURSOR}_scopes"):
        for row in chunk:
            (scope,) = row.values()
            yield {"scope": scope}


def _chunks(raw: Any, statement: str, parameters: dict[str, Any], *, name: str) -> Iterator[list[Row]]:
    """Through a cursor of the server, so that no more than a chunk is here at a time."""
    with raw.cursor(name=name, row_factory=dict_row) as cursor:
        cursor.execute(statement, parameters)
        while chunk := cursor.fetchmany(_CHUNK):
            yield chunk
