"""What follows the story: tasks that people insert, shown as they live, until somebody ends the demo."""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from rich.table import Table
from rich.text import Text

from taskqueue.lifecycle import Status
from xngin_worker.demo.children import Children
from xngin_worker.demo.life import TaskSeen, look, recent
from xngin_worker.demo.receiver import Receiver
from xngin_worker.demo.screen import STYLES, Screen, elapsed
from xngin_worker.environment import PROJECT_FOLDER

_LOOK_AGAIN_SECONDS = 0.1
_MOST_SHOWN = 12


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
    _requests: int = 0
    _next_search: float = 0.0

    def watch(self) -> None:
        """Never returns; `ChildEnded` when a process is gone."""
        self._requests = len(self.receiver.requests)
        with self.screen.changing():
            while True:
                self.children.check()
                self._search()
                tasks = look(self.connection, self._ids)
                if self.screen.is_live:
                    self.screen.show(_table(tasks))
                else:
                    self._tell(tasks)
                time.sleep(_LOOK_AGAIN_SECONDS)

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


def _table(tasks: Sequence[TaskSeen]) -> Table | Text:
    if not tasks:
        return Text("  No other task yet.", style="dim")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("  Task", no_wrap=True, overflow="ellipsis", max_width=22)
    table.add_column("Type", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("State", no_wrap=True)
    table.add_column("After", no_wrap=True, justify="right")
    table.add_column("", overflow="ellipsis", no_wrap=True)
    for task in tasks:
        last = task.moments[-1]
        remark = last.remark
        if task.status == Status.PENDING and task.due_in > 0:
            remark = f"next try in {task.due_in:.1f} s; {task.message or ''}".rstrip("; ")
        table.add_row(
            f"  {task.id}",
            task.task_type,
            Text(task.status, style=STYLES.get(Status(task.status), "")),
            elapsed(last.at),
            remark.partition("\n")[0],
        )
    return table
