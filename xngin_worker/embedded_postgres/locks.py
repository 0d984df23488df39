"""File locks: the only thing here that says who is alive, since the kernel drops them with the last process.

A lock belongs to the open file. It goes with the last copy of its descriptor, so a child that inherits one keeps it.
Locks are never unlocked, as that would take them from every copy.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from xngin_worker.embedded_postgres.home import belongs_to_another


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[int]:
    """Wait for the lock, for as long as its holder lives."""
    descriptor = _open_locked(path, fcntl.LOCK_EX)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def try_exclusive(path: Path) -> Iterator[int | None]:
    """The descriptor, or None when somebody else holds the lock."""
    try:
        descriptor = _open_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def shared(path: Path) -> int:
    """A descriptor that holds the lock together with others until it is closed."""
    return _open_locked(path, fcntl.LOCK_SH)


def _open_locked(path: Path, operation: int) -> int:
    try:
        descriptor = _open(path)
    except PermissionError as error:
        owned = path if path.exists() else path.parent
        raise belongs_to_another(owned, owned.stat().st_uid) from error
    try:
        fcntl.flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    if os.geteuid() == 0:
        # In somebody's folder it is that user's, who would otherwise be locked out by one run as root.
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor
