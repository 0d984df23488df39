"""What a pull has to tell: counts of everything, and by name the first participants whose outcome was refused."""

from __future__ import annotations

from collections import Counter

from experiments.jobs.run import Outcome

MOST_TOLD = 50
_LONGEST_ID = 60
# What the ledger stores of a message, less what stands around the list.
_LONGEST_TEXT = 3_600


class PullReport:
    """``pending`` draws were asked for; of them were ``recorded``, had an outcome by then (``already_had``), have no
    row (``not_in_warehouse``), a row without a value yet (``null``), another outcome (``conflicts``), or something
    that cannot be an outcome (``refused``)."""

    def __init__(self) -> None:
        self._counts = Counter(
            dict.fromkeys(("pending", "recorded", "already_had", "not_in_warehouse", "null", "refused", "conflicts"), 0)
        )
        self._told: list[str] = []

    def count(self, what: str, n: int = 1) -> None:
        self._counts[what] += n

    def refuse(self, participant_id: str, reason: str, *, conflict: bool = False) -> None:
        self.count("conflicts" if conflict else "refused")
        if len(self._told) < MOST_TOLD:
            self._told.append(f"{_short(participant_id)!r}: {reason}")

    def outcome(self) -> Outcome:
        """With a message when something was refused."""
        return Outcome(message=self._message(), counts=dict(self._counts))

    def _message(self) -> str | None:
        n = self._counts["refused"] + self._counts["conflicts"]
        if n == 0:
            return None
        shown, length = 0, 0
        while shown < len(self._told) and length + len(self._told[shown].encode()) + 2 <= _LONGEST_TEXT:
            length += len(self._told[shown].encode()) + 2
            shown += 1
        told = "; ".join(self._told[:shown])
        more = f"; and {n - shown:,} more" if n > shown else ""
        return f"{n:,} of {self._counts['pending']:,} outcomes were not recorded: {told}{more}"


def _short(participant_id: str) -> str:
    return participant_id if len(participant_id) <= _LONGEST_ID else f"{participant_id[:_LONGEST_ID]}…"
