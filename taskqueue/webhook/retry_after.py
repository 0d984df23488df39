"""``Retry-After``: a number of seconds, or a date."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 3600.0


def wait_seconds(value: str | None, *, now: datetime) -> float | None:
    """How long the receiver asks to wait, at most one hour; None if it does not say so legibly.

    Neither do a zero and a date that has passed say how long: the retries would be used up within a second.
    """
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"[0-9]{1,20}", value):
        asked = float(value)
    else:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        asked = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()
    return min(asked, LONGEST_SECONDS) if asked > 0 else None
