"""What the bench needs to know of a system."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class System:
    """The functions run in processes of their own, with the address of the system's database as first argument.

    ``work(url, concurrency, kind)`` runs a worker until it is killed. ``enqueue(url, count, kind)`` puts ``count``
    tasks of a kind (``noop`` or ``sleep``) into the queue by the system's own API for many; it returns the seconds.
    The rest are statements: ``insert`` one no-op task, whether any is ``unfinished``, how many are ``done``, ``empty``
    all tables, and ``fill`` the table with ``%(count)s`` tasks that were done before (semicolons between statements).
    """

    name: str
    setup: str
    create: Callable[[str], None]
    work: Callable[[str, int, str], None]
    enqueue: Callable[[str, int, str], float]
    insert: str
    unfinished: str
    done: str
    empty: str
    fill: str
    # Slow ones are given fewer tasks; speeds are compared, not times.
    share: float = 1.0
    share_of_sleeps: float = 1.0
    share_of_enqueued: float = 1.0
