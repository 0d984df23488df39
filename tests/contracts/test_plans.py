"""Plans at a million finished tasks: every statement of a worker finds its rows by an index, in a bounded walk."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from taskqueue import store
from taskqueue.database import Connection
from tests.support.plans import plan_of
from tests.support.sessions import claim, room_of, serving_of

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

SLOTS = 16
_HELD = [f"running_{n}" for n in range(1, SLOTS + 1)]
_SERVING = {**serving_of().parameters(), **room_of(SLOTS).parameters()}
_FENCES = {"ids": _HELD, "attempts": [1] * SLOTS}

# Parameters, rows that come back, and the most pages touched: an index to descend and a page to write for each row.
STATEMENTS: Mapping[str, tuple[dict[str, Any], int, int]] = MappingProxyType(
    {
        "claim": (_SERVING, SLOTS, 1_000),
        "claim_one": ({**_SERVING, "id": "due_1"}, 1, 100),
        "next_due": (_SERVING, 1, 200),
        "reclaim": ({**_SERVING, "worker_id": "nobody", "message": "lost"}, SLOTS, 1_000),
        # As if nobody had a first chance: all whose lease has expired are culprits.
        "discard_crash_loops": ({**_SERVING, "last_chance": 0, "lost_message": "lost", "message": "lost"}, 32, 1_500),
        "held_by": ({"worker_id": "worker-1"}, SLOTS, 200),
        "renew": ({**_FENCES, "lease_seconds": 60.0}, SLOTS, 500),
        "complete": ({**_FENCES, "results": ['{"n": 1}'] * SLOTS}, SLOTS, 500),
        "settle": (
            {
                **_FENCES,
                "statuses": ["pending"] * SLOTS,
                "retries_used": [1] * SLOTS,
                "delays": [60.0] * SLOTS,
                "embargoes": [datetime(2030, 1, 1, tzinfo=UTC)] * SLOTS,
                "messages": ["failed"] * SLOTS,
                "error_codes": ["error"] * SLOTS,
                "error_classes": ["builtins.ValueError"] * SLOTS,
                "tracebacks": ["…"] * SLOTS,
                "outcomes": ["failed"] * SLOTS,
            },
            SLOTS,
            1_000,
        ),
        "own_finishes": ({"ids": ["finished_1000001", *_HELD], "attempts": [1] * (SLOTS + 1)}, 1, 200),
        "pending_with_key": ({"dedupe_key": "nobody's"}, 0, 50),
        "unhandled_types": ({"task_types": ["test.noop"], "patience_seconds": 3600.0}, 1, 500),
    }
)


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("fresh_statistics", [False, True])
def test_a_statement_walks_an_index_and_few_pages(full_queue: Connection, name: str, fresh_statistics: bool) -> None:
    parameters, rows, most_buffers = STATEMENTS[name]
    with full_queue.transaction(force_rollback=True):
        if fresh_statistics:
            full_queue.execute("ANALYZE tasks")

        plan = plan_of(full_queue, name, parameters)

    assert plan.rows == rows
    assert "Seq Scan" not in plan.scans_of("tasks")
    assert plan.buffers < most_buffers


def test_a_claim_among_so_many_takes_what_is_due_served_and_not_paused(full_queue: Connection) -> None:
    with full_queue.transaction(force_rollback=True):
        claimed = claim(full_queue, room=room_of(200))

    assert sorted(task.id for task in claimed) == sorted(f"due_{n}" for n in range(1, 101))


def test_a_lease_is_renewed_on_the_page_of_its_row(full_queue: Connection) -> None:
    with full_queue.transaction(force_rollback=True):
        before = _updates(full_queue)
        store.renew(full_queue, [("running_64", 1)], lease_seconds=60.0)
        after = _updates(full_queue)

    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


def test_no_index_knows_what_a_renewal_writes(full_queue: Connection) -> None:
    indexes = full_queue.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'tasks'").fetchall()

    assert len(indexes) > 4
    assert [text for (text,) in indexes if "lease_until" in text or "updated_at" in text] == []


def _updates(connection: Connection) -> tuple[int, int]:
    """How many rows of the table were updated, and how many of these on their page, without touching an index."""
    row = connection.execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'tasks'"
    ).fetchone()
    assert row is not None
    return row[0], row[1]
