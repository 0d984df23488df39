"""Pages of an experiment's draws that wait for their outcome, oldest first, each read in a statement of its own.

The index ``draws_pending`` serves a page wherever it begins, so a run costs what is pending, not what was ever drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

# An instant stays the text that PostgreSQL writes: whoever inserts a draw chooses it, and it may lie beyond the
# calendar of Python. The row comparison is exact, and its first column is what the index is searched by.
_PAGE = """
    SELECT participant_id, created_at::text AS instant
    FROM draws
    WHERE experiment_id = %(experiment)s AND outcome IS NULL
        AND (created_at, participant_id) > (%(instant)s::timestamptz, %(participant)s)
        AND created_at <= %(until)s::timestamptz
    ORDER BY created_at, participant_id
    LIMIT %(rows)s
"""


@dataclass(frozen=True, kw_only=True)
class Page:
    """``participants`` in order; the next page begins after ``instant`` and the last of them."""

    participants: tuple[str, ...]
    instant: str


BEGINNING = Page(participants=("",), instant="-infinity")


def page_after(page: Page, experiment_id: str, *, rows: int, until: str = "infinity") -> Page | None:
    """The next ``rows`` draws that were made ``until`` then (an instant as PostgreSQL writes it); None after the last.

    Draws that received their outcome since the page before are passed over.
    """
    parameters: dict[str, str | int] = {
        "experiment": experiment_id,
        "instant": page.instant,
        "participant": page.participants[-1],
        "until": until,
        "rows": rows,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAGE, parameters)
        found = cursor.fetchall()
    if not found:
        return None
    return Page(participants=tuple(participant for participant, _ in found), instant=found[-1][1])
