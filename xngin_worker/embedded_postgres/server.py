"""The server process of one home: made, started, waited for and stopped, whatever a crash has left in its place.

Callers hold the lock of the data folder. The server and all its children hold `server.lock`: while that is taken no
second server is started on the data, and once it is free, what postmaster.pid says is of no interest.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from xngin_worker.embedded_postgres.binaries import Binaries, find_binaries
from xngin_worker.embedded_postgres.home import EmbeddedPostgresError, Home
from xngin_worker.embedded_postgres.locks import try_exclusive

USER = "xngin"
DATABASE = "xngin"
PORT = 5432  # Only a part of the socket's name.

# A crash recovery may take minutes, and so may the last checkpoint of a busy server.
START_SECONDS = 600.0
STOP_SECONDS = 120.0
LOOK_AGAIN_SECONDS = 0.02
LOOK_AGAIN_AT_MOST_SECONDS = 0.5  # Each look at a server that is not ready is a line in its log.
CANNOT_CONNECT_NOW = " 57P03 "
LOG_BYTES = 10_000_000
# On the command line rather than in postgresql.conf, so that data made by an older checkout get them too.
# Everything that durability depends on keeps its default.
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %e ",
}


@dataclass(frozen=True, kw_only=True)
class Postmaster:
    """The server that runs, or is to run, on the data of this home."""

    home: Home
    socket_folder: Path

    @property
    def lock(self) -> Path:
        return self.home.folder / "server.lock"

    @property
    def socket(self) -> Path:
        return self.socket_folder / f".s.PGSQL.{PORT}"

    def ensure_running(self, preferred: Path | None) -> None:
        """Start it unless a process of it lives, and wait as long as one does: it may be recovering, or ending."""
        deadline = time.monotonic() + START_SECONDS
        log_start: int | None = None
        pause = LOOK_AGAIN_SECONDS
        while (answer := self._ping()) is not Ping.OK:
            with try_exclusive(self.lock) as free:
                # A listening socket counts too, for file systems whose locks do not pass on to children.
                if free is not None and answer is Ping.NO_RESPONSE and self.listener() is None:
                    if log_start is not None:
                        raise EmbeddedPostgresError(
                            f"The embedded PostgreSQL does not start: {_last_words(self.home.log, log_start)}"
                        )
                    log_start = self._start(preferred, free)
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"The embedded PostgreSQL is not ready after {START_SECONDS:.0f} seconds, see {self.home.log}."
                )
            time.sleep(pause)
            pause = min(pause * 1.2, LOOK_AGAIN_AT_MOST_SECONDS)

    def ensure_database(self) -> None:
        try:
            with psycopg.connect(self._conninfo(), autocommit=True) as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
                if known.fetchone() is None:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise EmbeddedPostgresError(f"The embedded PostgreSQL runs but cannot be used: {reason}.") from error

    def stop(self) -> None:
        """Ask it to stop ("fast": sessions end, a checkpoint is written) and return when all of it has ended."""
        deadline = time.monotonic() + STOP_SECONDS
        asked = False
        while time.monotonic() < deadline:
            pid = self.listener()
            if pid is not None and not asked:
                if pid <= 1:
                    # A server in another container is numbered 0 here, and signalling 0 would mean ourselves.
                    raise EmbeddedPostgresError(f"The embedded PostgreSQL at {self.socket} is out of our sight.")
                os.kill(pid, signal.SIGINT)
                asked = True
            with try_exclusive(self.lock) as free:
                if free is not None and pid is None:
                    return
            time.sleep(LOOK_AGAIN_SECONDS)
        raise EmbeddedPostgresError(f"The embedded PostgreSQL is still shutting down, see {self.home.log}.")

    def listener(self) -> int | None:
        """The process that listens on the socket, by the word of the kernel; None when there is none."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(os.fspath(self.socket))
            except OSError:
                return None
            if sys.platform == "darwin":
                return probe.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    def _ping(self) -> Ping:
        """OK once it takes sessions, REJECT while it starts or ends, NO_RESPONSE when nothing answers."""
        return Ping(PGconn.ping(self._conninfo().encode()))

    def _conninfo(self) -> str:
        return make_conninfo(
            host=os.fspath(self.socket_folder), port=PORT, user=USER, dbname="postgres", connect_timeout=5
        )

    def _start(self, preferred: Path | None, lock: int) -> int:
        """Returns where in the log this start begins."""
        home = self.home
        binaries = find_binaries(preferred, home)
        if not home.cluster.exists():
            _create_cluster(home, binaries, lock)
        data_major = (home.cluster / "PG_VERSION").read_text().strip()
        if data_major != str(binaries.major):
            raise EmbeddedPostgresError(
                f"The data in {home.cluster} are of PostgreSQL {data_major} and the programs in {binaries.folder} "
                f"of {binaries.major}: point XNGIN_PG_BIN to those of {data_major}, or move the data away."
            )
        # We have the lock that every process of a server holds, so these are left over.
        for stale in (home.cluster / "postmaster.pid", self.socket, self.socket.with_name(f"{self.socket.name}.lock")):
            stale.unlink(missing_ok=True)
        log_start = home.log.stat().st_size if home.log.exists() else 0
        if log_start > LOG_BYTES:
            home.log.replace(home.log.with_suffix(".log.old"))
            log_start = 0
        settings = SETTINGS | {"unix_socket_directories": f'"{self.socket_folder}"'}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # The shell opens the log as the account, and leaves a server that is nobody's child and has a session of its
        # own: Ctrl-C in our terminal does not reach it, and no ended process is left for us to collect.
        subprocess.run(
            ["/bin/sh", "-c", '"$@" >>"$0" 2>&1 &', home.log, binaries.folder / "postgres", "-D", home.cluster, *words],
            **home.account.process_arguments(),
            start_new_session=True,
            pass_fds=[lock],
            check=True,
        )
        return log_start


def _create_cluster(home: Home, binaries: Binaries, lock: int) -> None:
    """Made beside its place and moved there whole, so that an end half way leaves nothing to trip over."""
    for leftover in home.folder.glob("unfinished-*"):
        shutil.rmtree(leftover)
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=home.folder))
    home.account.own(unfinished)
    locale = ["--encoding=UTF8", "--locale=C"]
    if binaries.major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    access = [f"--username={USER}", "--auth-local=trust", "--auth-host=reject"]
    made = subprocess.run(
        [binaries.folder / "initdb", f"--pgdata={unfinished}", "--data-checksums", *access, *locale],
        **home.account.process_arguments(),
        start_new_session=True,
        # Should we be killed, the next one waits for initdb to end before it clears up.
        pass_fds=[lock],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        reason = " ".join(made.stderr.split()) or f"it ended with {made.returncode}"
        raise EmbeddedPostgresError(f"The data of the embedded PostgreSQL cannot be made by initdb: {reason}")
    unfinished.rename(home.cluster)
    # The server syncs its own folder and never the one above, which this name is in.
    descriptor = os.open(home.folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_words(log: Path, start: int) -> str:
    lines = log.read_bytes()[start:].decode(errors="replace").splitlines() if log.exists() else []
    # Its answers to our own looks say nothing of why it ended.
    lines = [line for line in lines if CANNOT_CONNECT_NOW not in line]
    reasons = [line for line in lines if "FATAL" in line or "PANIC" in line] or lines or ["it said nothing"]
    return f"{reasons[-1].strip()} (see {log})."
