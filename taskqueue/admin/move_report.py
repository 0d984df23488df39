"""What came of a move, in words for the person who asked for it, and in Django's own history."""

from collections.abc import Sequence
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

from taskqueue.admin.moves import ALREADY_RESUBMITTED, Offer, Request, Result, states_of
from taskqueue.lifecycle import Refusal
from taskqueue.models import Task

# More than these are one entry in the history, for all together.
MOST_ENTRIES = 100

_WORDS = {
    Refusal.TERMINAL_STATE.value: "ended for good, nothing moves them",
    Refusal.INVALID_TRANSITION.value: "not possible in their state",
    Refusal.NOT_FOUND.value: "not there any more",
    Refusal.SUPERSEDED.value: "a pending task holds the same dedupe key",
    ALREADY_RESUBMITTED: "resubmitted by somebody since the page was shown",
}


def words(offer: Offer, result: Result, chosen: Sequence[str] | None) -> str:
    """How many moved, how many were refused and why, and in which state those are now that were chosen by hand."""
    parts = [f"{_tasks(result.moved)} {offer.done}."]
    if result.refused:
        reasons = "; ".join(
            f"{count:,} {_WORDS.get(code, 'not possible')} ({code})" for code, count in sorted(result.refused.items())
        )
        parts.append(f"{result.refused.total():,} refused: {reasons}.")
        if chosen:
            parts.append(_now_in_words(offer, result, chosen))
    if result.more:
        parts.append("There are more than one request moves: ask again for the rest.")
    return " ".join(part for part in parts if part)


def record(request: Request, result: Result, user_id: Any, description: str) -> None:
    """Enter what moved in the history: each task up to a hundred, or one entry for all with ``description``."""
    if not result.moved:
        return
    copies = request.offer.name == "resubmit"
    because = f" Reason: {request.reason}" if request.reason else ""
    if result.moved <= MOST_ENTRIES:
        message = "Made by resubmitting another task." if copies else f"{request.offer.done.capitalize()}."
        entries: list[tuple[str | None, str]] = [(task_id, task_id) for task_id in result.ids]
    else:
        message = f"{request.offer.label}: {_tasks(result.moved)} {request.offer.done}. {description}."
        entries = [(None, _tasks(result.moved))]
    content_type = ContentType.objects.get_for_model(Task)
    LogEntry.objects.bulk_create(
        LogEntry(
            user_id=user_id,
            content_type=content_type,
            object_id=task_id,
            object_repr=name[:200],
            action_flag=ADDITION if copies else CHANGE,
            change_message=message + because,
        )
        for task_id, name in entries
    )


def _tasks(count: int) -> str:
    return f"{count:,} {'task' if count == 1 else 'tasks'}"


def _now_in_words(offer: Offer, result: Result, chosen: Sequence[str]) -> str:
    left = chosen if offer.name == "resubmit" else [task_id for task_id in chosen if task_id not in result.ids]
    states = states_of(left)
    if not states:
        return ""
    if len(chosen) == 1:
        return f"It is {next(iter(states))} now."
    return f"Now: {', '.join(f'{count:,} {state}' for state, count in sorted(states.items()))}."
