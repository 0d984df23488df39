"""A PostgreSQL server for a checkout without DATABASE_URL: started by its first user, stopped by its last.

Nothing is believed that a crash can leave behind. Users are shared locks on a file, which the kernel drops with the
process. The server and all its children hold another lock; while it is taken, no second server is started on the data,
and once it is free, whatever postmaster.pid says is rubbish. Where its files lie is told in postgres_home.py.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from xngin_worker.postgres_binaries import find_binaries
from xngin_worker.postgres_home import EmbeddedPostgresError, Home, belongs_to_another, open_home

__all__ = ["EmbeddedPostgresError", "Server", "acquire"]

# A crash recovery may take minutes, and so may the last checkpoint of a busy server.
START_SECONDS = 600.0
STOP_SECONDS = 120.0
LOOK_AGAIN_SECONDS = 0.02
LOG_BYTES = 10_000_000
# On the command line rather than in postgresql.conf, so that data made by an older checkout gets them too.
# Everything that durability depends on keeps its default.
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
}


@dataclass(frozen=True, kw_only=True)
class Server:
    data_folder: Path
    socket_folder: Path
    user: str = "xngin"
    database: str = "xngin"
    port: int = 5432

    @property
    def url(self) -> str:
        host = quote(os.fspath(self.socket_folder), safe="")
        return f"postgresql://{quote(self.user)}@/{quote(self.database)}?host={host}&port={self.port}"

    def release(self) -> None:
        """Stop being a user; when there is no other, stop the server and return once all of it has ended."""
        with _lock:
            held = _held.pop(self.data_folder, None)
            if held is not None:
                _leave(held)


@dataclass(frozen=True, kw_only=True)
class _Held:
    """What makes this process a user. After a fork both processes have the descriptor, and both count."""

    server: Server
    home: Home
    users_lock: int


_held: dict[Path, _Held] = {}
_lock = threading.RLock()
# A fork while another thread starts a server would take the locks of that start along.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def acquire(data_folder: Path, binaries_folder: Path | None = None) -> Server:
    """Have a server run for this folder and be one of its users until the process ends or releases it.

    Cheap when called again; a server that has died meanwhile is started anew.
    """
    with _lock:
        key = data_folder.resolve()
        held = _held.get(key)
        if held is None or _listener(held.server) is None:
            fresh = _join(key, binaries_folder)
            if held is not None:
                os.close(held.users_lock)
            held = _held[key] = fresh
        return held.server


def _join(data_folder: Path, binaries_folder: Path | None) -> _Held:
    try:
        data_folder.mkdir(parents=True, exist_ok=True)
        with _exclusive(data_folder / "postgres.lock"):
            home = open_home(data_folder)
            server = Server(data_folder=data_folder, socket_folder=home.socket_folder())
            # Only those who hold the lock above take this one whole, so this does not wait.
            users_lock = _open_locked(home.folder / "users.lock", fcntl.LOCK_SH)
            try:
                _ensure_running(server, home, binaries_folder)
                _ensure_database(server)
            except BaseException:
                os.close(users_lock)
                raise
    except OSError as error:
        raise EmbeddedPostgresError(
            f"The embedded database in {data_folder} cannot be used: {error}."
        ) from error
    return _Held(server=server, home=home, users_lock=users_lock)


def _ensure_running(server: Server, home: Home, binaries_folder: Path | None) -> None:
    """Start it unless some process of it lives, and wait as long as one does: it may be recovering, or ending."""
    deadline = time.monotonic() + START_SECONDS
    started = False
    while (answer := _ping(server)) is not Ping.OK:
        with _try_exclusive(home.folder / "server.lock") as server_lock:
            # A listening socket counts too, for file systems whose locks are not handed to children.
            if server_lock is not None and answer is Ping.NO_RESPONSE and _listener(server) is None:
                if started:
                    raise EmbeddedPostgresError(
                        f"The embedded PostgreSQL does not start: {_last_words(home)}"
                    )
                _start(server, home, binaries_folder, server_lock)
                started = True
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(
                f"The embedded PostgreSQL has not become ready in {START_SECONDS:.0f} seconds (see {home.log})."
            )
        time.sleep(LOOK_AGAIN_SECONDS)


def _start(server: Server, home: Home, binaries_folder: Path | None, server_lock: int) -> None:
    binaries = find_binaries(binaries_folder, home)
    if not home.cluster.exists():
        _create_cluster(home, server, binaries.folder, binaries.major, server_lock)
    data_version = (home.cluster / "PG_VERSION").read_text().strip()
    if data_version != str(binaries.major):
        raise EmbeddedPostgresError(
            f"The data in {home.cluster} is of PostgreSQL {data_version} and the programs in {binaries.folder} are of "
            f"{binaries.major}: point XNGIN_PG_BIN to programs of {data_version}, or move the data away."
        )
    # We hold the lock that every process of a server holds, so nobody needs these.
    for stale in ("postmaster.pid", "postmaster.opts"):
        (home.cluster / stale).unlink(missing_ok=True)
    for stale in (f".s.PGSQL.{server.port}", f".s.PGSQL.{server.port}.lock"):
        (server.socket_folder / stale).unlink(missing_ok=True)
    if home.log.exists() and home.log.stat().st_size > LOG_BYTES:
        home.log.replace(home.log.with_suffix(".log.old"))
    settings = SETTINGS | {"unix_socket_directories": f'"{server.socket_folder}"', "port": str(server.port)}
    # The shell opens the log as the account, and leaves a server that is nobody's child and in a session of its own:
    # Ctrl-C in our terminal does not reach it, and no ended process is left for us to collect.
    subprocess.run(
        ["/bin/sh", "-c", '"$@" >>"$0" 2>&1 &', home.log, binaries.folder / "postgres", "-D", home.cluster]
        + [word for name, value in settings.items() for word in ("-c", f"{name}={value}")],
        **home.account.process_arguments(),
        start_new_session=True,
        pass_fds=[server_lock],
        check=True,
    )


def _create_cluster(home: Home, server: Server, programs: Path, major: int, server_lock: int) -> None:
    """Make the data beside its place and move it there whole, so that an end half way leaves nothing to trip over."""
    for leftover in home.folder.glob("unfinished-*"):
        shutil.rmtree(leftover)
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=home.folder))
    home.account.own(unfinished)
    builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if major >= 17 else []
    made = subprocess.run(
        [programs / "initdb", f"--pgdata={unfinished}", f"--username={server.user}", "--auth-local=trust"]
        + ["--auth-host=reject", "--encoding=UTF8", "--locale=C", "--data-checksums", *builtin],
        **home.account.process_arguments(),
        start_new_session=True,
        # Should we be killed, the next one waits for initdb to end before it clears up.
        pass_fds=[server_lock],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        reason = " ".join(made.stderr.split()) or f"it ended with {made.returncode}"
        raise EmbeddedPostgresError(f"The data of the embedded PostgreSQL cannot be made by initdb: {reason}")
    unfinished.rename(home.cluster)
    # The server never syncs the folder above its own.
    descriptor = os.open(home.folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ensure_database(server: Server) -> None:
    try:
        with psycopg.connect(_conninfo(server, "postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [server.database])
            if known.fetchone() is None:
                connection.execute(f'CREATE DATABASE "{server.database}"')
    except psycopg.Error as error:
        reason = str(error).partition("\n")[0]
        raise EmbeddedPostgresError(f"The embedded PostgreSQL runs and cannot be used: {reason}.") from error


def _leave(held: _Held) -> None:
    os.close(held.users_lock)
    home, server = held.home.folder, held.server
    with contextlib.ExitStack() as locks:
        # The data folder may have been removed under us; the server then still has to go when its home is elsewhere.
        with contextlib.suppress(FileNotFoundError):
            locks.enter_context(_exclusive(server.data_folder / "postgres.lock"))
        with contextlib.suppress(FileNotFoundError):
            # A descriptor of our own would be shared with a forked child; a new one is refused while the child lives.
            alone = locks.enter_context(_try_exclusive(home / "users.lock"))
            if alone is not None:
                _stop(server, home)


def _stop(server: Server, home: Path) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    asked = False
    while time.monotonic() < deadline:
        postmaster = _listener(server)
        if postmaster is not None and not asked:
            os.kill(postmaster, signal.SIGINT)  # "Fast": ends the sessions, writes a last checkpoint.
            asked = True
        with _try_exclusive(home / "server.lock") as server_lock:
            if server_lock is not None and postmaster is None:
                return
        time.sleep(LOOK_AGAIN_SECONDS)
    raise EmbeddedPostgresError(
        f"The embedded PostgreSQL in {home} is still shutting down; it was left to it."
    )


def _ping(server: Server) -> Ping:
    """OK once it accepts sessions, REJECT while it starts or ends, NO_RESPONSE when nothing answers."""
    return Ping(PGconn.ping(_conninfo(server, "postgres").encode()))


def _conninfo(server: Server, database: str) -> str:
    return make_conninfo(
        host=os.fspath(server.socket_folder),
        port=server.port,
        user=server.user,
        dbname=database,
        connect_timeout=5,
    )


def _listener(server: Server) -> int | None:
    """The process that listens on the socket, by the kernel's word; None when nothing does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(os.fspath(server.socket_folder / f".s.PGSQL.{server.port}"))
        except OSError:
            return None
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    if pid <= 1:
        # A server in another container: signalling 0 would mean ourselves.
        raise EmbeddedPostgresError(
            f"The server at {server.socket_folder} was started where we cannot see it."
        )
    return pid


def _last_words(home: Home) -> str:
    lines = home.log.read_text(errors="replace").splitlines()[-20:] if home.log.exists() else []
    reasons = [line for line in lines if "FATAL" in line or "PANIC" in line] or lines or ["it said nothing"]
    return f"{reasons[-1]} (see {home.log})."


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[int]:
    descriptor = _open_locked(path, fcntl.LOCK_EX)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _try_exclusive(path: Path) -> Iterator[int | None]:
    """The descriptor, or None when someone else holds the lock; closing drops it unless a child has it too."""
    try:
        descriptor = _open_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_locked(path: Path, operation: int) -> int:
    """Locks go with the last copy of their descriptor. They are never unlocked, as that would unlock every copy."""
    owner = path.parent.stat()
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            if os.geteuid() == 0:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        except FileExistsError:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except PermissionError as error:
        raise belongs_to_another(path, path.lstat().st_uid if path.exists() else owner.st_uid) from error
    try:
        fcntl.flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _release_all() -> None:
    for held in list(_held.values()):
        try:
            held.server.release()
        except (EmbeddedPostgresError, OSError) as error:
            sys.stderr.write(f"{error}\n")


# Runs at a normal end, SystemExit included. After SIGKILL the next user's end stops the server.
atexit.register(_release_all)
