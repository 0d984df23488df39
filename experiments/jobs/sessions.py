"""Sessions with warehouses, kept for a while between jobs. Each has one user at a time.

A kept session is used again only when its datasource's config is still the one it was opened with, and when it answers;
so whoever changes a datasource need tell nobody, and closing idle sessions sooner is a courtesy to the warehouse.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, connections
from django.db.utils import DatabaseError

from experiments.errors import DatasourceError
from experiments.jobs.run import Cancellation
from experiments.warehouse.dialects import Dialect
from experiments.warehouse.session import Warehouse

# An open DuckDB file is locked against its writers, and opening it takes a millisecond.
_NEVER_KEPT = frozenset({Dialect.DUCKDB})
_VERSIONS = """
    SELECT id, encode(sha256(convert_to(config::text, 'UTF8')), 'hex') FROM datasources WHERE id = ANY(%s)
"""


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """How many idle sessions are kept, and for how long. They are looked at every ``look_seconds``."""

    per_datasource: int = 2
    in_all: int = 16
    idle_seconds: float = 60.0
    look_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class _Idle:
    """``version`` is that of the config, read before the session was opened; ``since`` is monotonic."""

    datasource_id: str
    version: str | None
    warehouse: Warehouse
    since: float


class Sessions:
    """Of one process; any thread may use it. A thread of its own runs only while something is idle."""

    def __init__(self, open_session: Callable[[str], Warehouse], *, keeping: Keeping | None = None) -> None:
        self._open = open_session
        self._keeping = keeping or Keeping()
        self._changed = threading.Condition()
        # The one that was used last stands last.
        self._idle: list[_Idle] = []
        self._keeper: threading.Thread | None = None
        _all.add(self)

    @contextmanager
    def use(self, datasource_id: str, cancellation: Cancellation) -> Iterator[Warehouse]:
        """A session with the datasource's warehouse; it is cancelled when the run is told to stop.

        It is kept afterwards, unless the block ended with an exception or the session was cancelled. Raises
        ``RunCancelled``, and what opening raises.
        """
        version = _versions([datasource_id]).get(datasource_id)
        warehouse = self._kept(datasource_id, version, cancellation)
        if warehouse is None:
            cancellation.check()
            warehouse = self._open(datasource_id)
        with _Lease(warehouse, cancellation) as lease:
            yield warehouse
        if lease.cancelled or warehouse.dialect in _NEVER_KEPT:
            warehouse.close()
        else:
            self._keep(_Idle(datasource_id=datasource_id, version=version, warehouse=warehouse, since=time.monotonic()))

    @property
    def idle(self) -> int:
        with self._changed:
            return len(self._idle)

    def prune(self, datasource_id: str | None = None) -> int:
        """Close idle sessions (of one datasource, or of all) whose config is not the stored one any more, and all that
        were idle for too long. How many those were.

        A session in use is left alone; nobody else uses it afterwards.
        """
        with self._changed:
            idle_ids = {idle.datasource_id for idle in self._idle}
        ids = idle_ids if datasource_id is None else idle_ids & {datasource_id}
        versions = _versions(sorted(ids)) if ids else {}
        latest = time.monotonic() - self._keeping.idle_seconds

        def gone(idle: _Idle) -> bool:
            # One of a datasource that was not asked about may have come back meanwhile.
            old = idle.datasource_id in ids and versions.get(idle.datasource_id) != idle.version
            return old or idle.since <= latest

        return self._close(gone)

    def close_idle(self) -> int:
        """All of them. How many those were."""
        return self._close(lambda _: True)

    def _kept(self, datasource_id: str, version: str | None, cancellation: Cancellation) -> Warehouse | None:
        while (idle := self._take(datasource_id)) is not None:
            if idle.version != version:
                idle.warehouse.close()
                continue
            try:
                with _Lease(idle.warehouse, cancellation) as lease:
                    idle.warehouse.fetch("SELECT 1")
            except DatasourceError:
                # The server ended it while it was idle; another one is opened.
                cancellation.check()
                continue
            if not lease.cancelled:
                return idle.warehouse
            idle.warehouse.close()
        return None

    def _take(self, datasource_id: str) -> _Idle | None:
        with self._changed:
            for position in reversed(range(len(self._idle))):
                if self._idle[position].datasource_id == datasource_id:
                    return self._idle.pop(position)
        return None

    def _keep(self, idle: _Idle) -> None:
        too_many: list[_Idle] = []
        with self._changed:
            self._idle.append(idle)
            ours = [other for other in self._idle if other.datasource_id == idle.datasource_id]
            too_many += ours[: max(len(ours) - self._keeping.per_datasource, 0)]
            rest = [other for other in self._idle if other not in too_many]
            too_many += rest[: max(len(rest) - self._keeping.in_all, 0)]
            self._idle = [other for other in self._idle if other not in too_many]
            if self._keeper is None and self._idle:
                self._keeper = threading.Thread(target=self._look_after, name="idle warehouse sessions", daemon=True)
                self._keeper.start()
        _close_all(too_many)

    def _close(self, chosen: Callable[[_Idle], bool]) -> int:
        with self._changed:
            gone = [idle for idle in self._idle if chosen(idle)]
            self._idle = [idle for idle in self._idle if idle not in gone]
            self._changed.notify_all()
        _close_all(gone)
        return len(gone)

    def _look_after(self) -> None:
        """Until nothing is idle."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._idle, timeout=self._keeping.look_seconds)
                if not self._idle:
                    self._keeper = None
                    return
            try:
                self.prune()
            except DatabaseError:
                # Whether the configs are still the same cannot be told.
                self.close_idle()
            finally:
                connections.close_all()


_all: weakref.WeakSet[Sessions] = weakref.WeakSet()


def prune_sessions(datasource_id: str) -> int:
    """``Sessions.prune`` of whatever this process keeps."""
    return sum(sessions.prune(datasource_id) for sessions in list(_all))


@atexit.register
def close_sessions() -> None:
    """All idle ones of this process, so that a warehouse need not find out that it ended."""
    for sessions in list(_all):
        sessions.close_idle()


class _Lease:
    """The time in which one user has a session: only within it a cancellation reaches it.

    A session whose user failed is closed.
    """

    def __init__(self, warehouse: Warehouse, cancellation: Cancellation) -> None:
        self._warehouse = warehouse
        self._calling = cancellation.calling(self._cancel)
        self._lock = threading.Lock()
        self._ended = False
        self.cancelled = False

    def __enter__(self) -> _Lease:
        self._calling.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._calling.__exit__(None, None, None)
        with self._lock:
            self._ended = True
        if kind is not None:
            self._warehouse.close()

    def _cancel(self) -> None:
        with self._lock:
            if not self._ended:
                self.cancelled = True
                self._warehouse.cancel()


def _versions(datasource_ids: Sequence[str]) -> dict[str, str]:
    """Of the stored configs, by datasource; one that is missing has none."""
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS, [list(datasource_ids)])
        return dict(cursor.fetchall())


def _close_all(idle: list[_Idle]) -> None:
    for each in idle:
        each.warehouse.close()
