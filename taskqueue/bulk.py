"""Rows of new tasks on their way into the table by COPY, as text that is put together here.

The driver's own row writer costs three times as much, and random ids of many rows in one millisecond would touch the
indexes all over instead of at their end.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.utils import CursorWrapper

from taskqueue.ids import new_correlation_ids, new_ids

BATCH = 1_000
_NULL = r"\N"
_COPY = """
COPY tasks (id, task_type, payload, embargo_until, queue, priority, max_retries, correlation_id) FROM STDIN
"""


def copy_rows(cursor: CursorWrapper, batches: Iterable[Sequence[dict[str, Any]]]) -> None:
    """Write the rows and set the ``id`` of each. While the server stores one batch the next may still be made."""
    cursor.execute("SELECT now()")
    now: datetime = cursor.fetchall()[0][0]
    now_text = now.isoformat()
    with cursor.copy(_COPY) as copy:
        for rows in batches:
            lines = []
            fresh = zip(rows, new_ids("task_", len(rows)), new_correlation_ids(len(rows)), strict=True)
            for row, id, correlation_id in fresh:
                row["id"] = id
                lines.append(_line(row, now, now_text, correlation_id))
            copy.write("".join(lines))


def _line(row: Mapping[str, Any], now: datetime, now_text: str, correlation_id: str) -> str:
    due = row["run_at"]
    if due is None and row["delay_seconds"]:
        due = now + timedelta(seconds=row["delay_seconds"])
    instant = now_text if due is None else due.isoformat()
    max_retries = row["max_retries"]
    return (
        f"{row['id']}\t{_escaped(row['task_type'])}\t{_escaped(row['payload'])}\t{instant}\t"
        f"{_escaped(row['queue'])}\t{row['priority']}\t{_NULL if max_retries is None else max_retries}\t"
        f"{_escaped(row['correlation_id']) if row['correlation_id'] else correlation_id}\n"
    )


def _escaped(text: str | None) -> str:
    """A value in COPY's text format. Of what has to be escaped there only the backslash can occur.

    Names were judged to be printable, and JSON writes control characters in its own way.
    """
    return _NULL if text is None else text.replace("\\", "\\\\")
