"""Who uses the embedded server: it starts with the first process and stops with the last.

Users are shared locks on one file. Nobody is counted and no process is named, so a killed one is simply gone.
"""

import atexit
import contextlib
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from xngin_worker.embedded_postgres import locks
from xngin_worker.embedded_postgres.home import EmbeddedPostgresError, open_home
from xngin_worker.embedded_postgres.server import DATABASE, PORT, USER, Postmaster


@dataclass(frozen=True, kw_only=True)
class Server:
    """How to reach the server of a data folder, for any client of PostgreSQL."""

    data_folder: Path
    socket_folder: Path
    user: str = USER
    database: str = DATABASE
    port: int = PORT

    @property
    def url(self) -> str:
        host = quote(os.fspath(self.socket_folder), safe="")
        return f"postgresql://{self.user}@/{self.database}?host={host}&port={self.port}"

    def release(self) -> None:
        """Stop being a user; without another one, stop the server and return when all of it has ended."""
        with _lock:
            held = _held.pop(self.data_folder, None)
            if held is not None:
                _leave(held)


@dataclass(frozen=True, kw_only=True)
class _Held:
    """What makes this process a user. After a fork both processes have the descriptor, and both are users."""

    server: Server
    postmaster: Postmaster
    lock: int


_held: dict[Path, _Held] = {}
_lock = threading.RLock()
# A fork while another thread starts a server would take the locks of that start along.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def acquire(data_folder: Path, binaries_folder: Path | None = None) -> Server:
    """Have a server run for this folder and be one of its users until this process ends, or releases it.

    Cheap when called again; a server that has died meanwhile is started anew. `binaries_folder` is looked at first.
    """
    with _lock:
        key = data_folder.resolve()
        held = _held.get(key)
        if held is None or held.postmaster.listener() is None:
            fresh = _join(key, binaries_folder)
            if held is not None:
                os.close(held.lock)
            held = _held[key] = fresh
        return held.server


def _join(data_folder: Path, binaries_folder: Path | None) -> _Held:
    try:
        data_folder.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(data_folder / "postgres.lock"):
            home = open_home(data_folder)
            postmaster = Postmaster(home=home, socket_folder=home.socket_folder())
            lock = locks.shared(_users_of(postmaster))
            try:
                postmaster.ensure_running(binaries_folder)
                postmaster.ensure_database()
            except BaseException:
                # Ctrl-C while it starts, too, must not leave a server without a user.
                os.close(lock)
                with contextlib.suppress(EmbeddedPostgresError):
                    _stop_unless_used(postmaster)
                raise
    except OSError as error:
        raise EmbeddedPostgresError(f"The embedded database in {data_folder} cannot be used: {error}.") from error
    server = Server(data_folder=data_folder, socket_folder=postmaster.socket_folder)
    return _Held(server=server, postmaster=postmaster, lock=lock)


def _leave(held: _Held) -> None:
    os.close(held.lock)
    with contextlib.ExitStack() as stack:
        # The data folder may have been removed under us, and a server that lives elsewhere still has to go.
        with contextlib.suppress(FileNotFoundError):
            stack.enter_context(locks.exclusive(held.server.data_folder / "postgres.lock"))
        with contextlib.suppress(FileNotFoundError):
            _stop_unless_used(held.postmaster)


def _stop_unless_used(postmaster: Postmaster) -> None:
    # Opened anew: the lock just closed may live on in a forked child, which is a user like any other.
    with locks.try_exclusive(_users_of(postmaster)) as alone:
        if alone is not None:
            postmaster.stop()


def _users_of(postmaster: Postmaster) -> Path:
    return postmaster.home.folder / "users.lock"


def _release_all() -> None:
    for held in list(_held.values()):
        try:
            held.server.release()
        except (EmbeddedPostgresError, OSError) as error:
            sys.stderr.write(f"{error}\n")


# Runs at a normal end, SystemExit included. After a SIGKILL it is the next user's end that stops the server.
atexit.register(_release_all)
