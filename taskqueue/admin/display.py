"""Small pieces of the pages: a state, an instant, a text from outside. Everything is escaped, and isolated from the
direction of the text around it."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from taskqueue.admin.json_text import LARGEST_READ, readable
from taskqueue.lifecycle import TaskState, state_view
from taskqueue.models import Task
from taskqueue.redaction import redacted_text

NOTHING = SafeString('<span class="tq-quiet">-</span>')


def state(task: TaskState) -> SafeString:
    view = state_view(task, timezone.now())
    return badge(view.label, view.tone)


def badge(label: str, tone: str) -> SafeString:
    return format_html('<span class="tq-badge tq-{}">{}</span>', tone, label)


def instant(value: datetime | None) -> SafeString:
    if value is None:
        return NOTHING
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}"><span class="tq-nowrap">{}</span> <span class="tq-nowrap">{} '
        '<span class="tq-quiet">{}</span></span></time>',
        local.isoformat(),
        f"{local:%Y-%m-%d}",
        f"{local:%H:%M:%S}",
        local.tzname() or "",
    )


def span(length: timedelta) -> str:
    """A length of time in its two largest units."""
    seconds = abs(length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, name, smaller, smaller_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name} {int(seconds % unit // smaller)} {smaller_name}"
    return f"{int(seconds)} s"


def foreign(text: str | None, longest: int = 200) -> SafeString:
    """A text that somebody outside chose, on one line."""
    return NOTHING if not text else format_html('<bdi class="tq-text">{}</bdi>', redacted_text(text, longest=longest))


def block(text: str | None, longest: int = 8_000) -> SafeString:
    """A text of several lines that may be long, such as a message."""
    if not text:
        return NOTHING
    return format_html('<bdi class="tq-block">{}</bdi>', redacted_text(text, longest=longest))


def json_block(text: str | None, length: int | None) -> SafeString:
    """``text`` is the beginning of a JSON value that is ``length`` characters long."""
    if text is None:
        return NOTHING
    shown = readable(text)
    note: SafeString | str = ""
    if shown.is_cut or (length or 0) > LARGEST_READ:
        note = format_html('<p class="tq-note">Cut: it is {} characters long.</p>', f"{length or 0:,}")
    # The direction is set, since braces and quotes would otherwise jump around text that runs from right to left.
    return format_html('<pre class="tq-json" dir="ltr" tabindex="0">{}</pre>{}', shown.text, note)


def task_link(task_id: str) -> SafeString:
    address = reverse("admin:taskqueue_task_change", args=[quote(task_id)])
    return format_html('<a class="tq-id" href="{}"><bdi>{}</bdi></a>', address, task_id)


def list_link(text: str, **parameters: Any) -> SafeString:
    """A link to the list of tasks, narrowed by its own parameters."""
    address = f"{reverse(f'admin:{Task._meta.app_label}_{Task._meta.model_name}_changelist')}?{urlencode(parameters)}"
    return format_html('<a class="tq-text" href="{}"><bdi>{}</bdi></a>', address, text)
