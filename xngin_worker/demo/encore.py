"""What follows the story: tasks that people insert, shown as they live, until somebody ends the demo."""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from rich.console import Group, RenderableType
from rich.text import Text

from taskqueue.lifecycle import Status
from xngin_worker.demo.children import Children
from xngin_worker.demo.life import TaskSeen, look, recent
from xngin_worker.demo.receiver import Receiver
from xngin_worker.demo.screen import STYLES, Screen, elapsed
from xngin_worker.environment import PROJECT_FOLDER

_LOOK_AGAIN_SECONDS = 0.1
_MOST_SHOWN = 10
_ID_WIDTH = 24


def insert_command(url: str) -> str:
    """What to paste into another shell: it inserts a webhook to the receiver, a new one each time."""
    return (
        f"{shlex.quote(str(PROJECT_FOLDER / 'run'))} dbshell <<'SQL'\n"
        "INSERT INTO tasks (id, task_type, payload)\n"
        "VALUES ('task_' || gen_random_uuid(), 'webhook.outbound',\n"
        f'        \'{{"url": "{url}", "method": "POST"}}\');\n'
        "SQL"
    )


@dataclass(kw_only=True)
class Encore:
    """Watches until something breaks in. `since` is the database's time from which on tasks are of interest."""

    screen: Screen
    connection: psycopg.Connection
    children: Children
    receiver: Receiver
    since: datetime
    known: set[str]
    _ids: list[str] = field(default_factory=list)
    _shown: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _told_until: float = field(default_factory=time.monotonic)
    _next_search: float = 0.0

    def watch(self) -> None:
        """Never returns; `ChildEnded` when a process is gone."""
        with self.screen.changing(last_stays=True):
            while True:
                self._search()
                tasks = look(self.connection, self._ids)
                if self.screen.is_live:
                    self.screen.show(self._lines(tasks))
                else:
                    self._tell(tasks)
                self.children.pause(_LOOK_AGAIN_SECONDS)

    def _search(self) -> None:
        """Ids come from the requests that arrived and, less often the longer it takes, from the table."""
        found = [request.task_id for request in self.receiver.requests if request.task_id is not None]
        started = time.monotonic()
        if started >= self._next_search:
            found += recent(self.connection, self.since)
            self._next_search = started + max(0.3, 20 * (time.monotonic() - started))
        new = [task_id for task_id in dict.fromkeys(found) if task_id not in self.known]
        self.known.update(new)
        self._ids = [*self._ids, *new][-_MOST_SHOWN:]

    def _tell(self, tasks: Sequence[TaskSeen]) -> None:
        for task in tasks:
            moments = task.moments
            for moment in moments[self._shown[task.id] :]:
                self.screen.moment(moment, prefix=f"{task.id}  {task.task_type}  ")
            self._shown[task.id] = len(moments)
        for request in self.receiver.requests:
            if request.arrived > self._told_until:
                self._told_until = request.arrived
                self.screen.line(f"  {request.task_id}  received as {request.line}")

    def _lines(self, tasks: Sequence[TaskSeen]) -> RenderableType:
        if not tasks:
            return Text("  No other task yet.", style="dim")
        lines = [_line(f"  {'Task':<{_ID_WIDTH}}  {'Type':<20}  {'State':<13}  {'After':>9}", "dim")]
        for task in tasks:
            last = task.moments[-1]
            name = task.id if len(task.id) <= _ID_WIDTH else f"{task.id[: _ID_WIDTH - 2]}.."
            line = _line(f"  {name:<{_ID_WIDTH}}  {task.task_type:<20}  ")
            line.append(f"{task.status:<13}", STYLES.get(Status(task.status), ""))
            line.append(f"  {elapsed(last.at):>9}")
            lines.append(line)
            if remark := self._remark(task):
                lines.append(_line(f"    {remark}", "dim"))
        return Group(*lines)

    def _remark(self, task: TaskSeen) -> str:
        if task.status == Status.PENDING and task.due_in > 0:
            return f"next try in {task.due_in:.1f} s; {(task.message or '').partition('\n')[0]}".rstrip("; ")
        if task.status == Status.SUCCESS:
            return ", ".join(f"received as {request.line}" for request in self.receiver.of_task(task.id))
        last = task.moments[-1]
        return "" if last.status == Status.RUNNING else last.remark


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
