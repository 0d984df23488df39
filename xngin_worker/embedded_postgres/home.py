"""Where the embedded database of a checkout lives, and which account its server runs as.

Nothing outside the folders made here ever changes its owner or mode.
"""

import os
import pwd
import re
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# PostgreSQL refuses to run as root. The first exists where a server package is installed, the second nearly always.
UNPRIVILEGED_ACCOUNTS = ("postgres", "nobody")
# For a checkout out of that account's reach. Only root can write to the first; the second is for a read-only /var/lib.
OUTSIDE_FOLDERS = (Path("/var/lib/xngin-worker"), Path("/var/tmp/xngin-worker"))  # noqa: S108 - verified below
# A Unix socket's address is limited to 107 bytes, ".s.PGSQL.5432" included; libpq splits the host at commas.
PLAIN_SHORT_PATH = re.compile(r"/[A-Za-z0-9_./-]{1,89}")


class EmbeddedPostgresError(Exception):
    """The embedded server cannot be used; the message is a sentence for whoever started the program."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """Who runs the server; `becomes` is set when we are root and have to turn into that account."""

    name: str
    uid: int
    gid: int
    becomes: bool

    def process_arguments(self) -> dict[str, Any]:
        """For subprocess, with an empty environment: PGDATA, PGPORT and others would change what is run."""
        arguments: dict[str, Any] = {
            # The account may not be able to reach the folder we are in.
            "cwd": "/",
            "env": {"PATH": os.defpath, "LC_ALL": "C"},
            "stdin": subprocess.DEVNULL,
            "umask": 0o077,
        }
        if self.becomes:
            arguments |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return arguments

    def can_enter(self, folder: Path) -> bool:
        """Tried by a process of that account, so that access lists and mounts count too."""
        try:
            probe = subprocess.run(
                ["/bin/sh", "-c", 'cd "$0"', os.fspath(folder)],
                **self.process_arguments(),
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and no program can be started as {self.name}: {error}."
            ) from error
        return probe.returncode == 0

    def own(self, folder: Path) -> None:
        """Hand over a folder of ours, in a place where nobody else can put another in its stead."""
        if self.becomes:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)


@dataclass(frozen=True, kw_only=True)
class Home:
    """The folder of one embedded database. As root it stays ours, and the account owns what it writes to."""

    folder: Path
    account: Account

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def log(self) -> Path:
        return self.cluster / "server.log"

    def socket_folder(self) -> Path:
        """A folder that only the account can enter, with a path that fits into a socket's address.

        The short one has a random name, kept in a file of ours: nobody can occupy it beforehand.
        """
        inside = self.folder / "socket"
        if PLAIN_SHORT_PATH.fullmatch(os.fspath(inside)):
            inside.mkdir(mode=0o700, exist_ok=True)
            if inside.lstat().st_uid != self.account.uid:
                self.account.own(inside)
            return inside
        record = self.folder / "socket_folder"
        if record.exists():
            known = Path(record.read_text())
            if _is_private(known, self.account.uid):
                return known
        short = Path(tempfile.mkdtemp(prefix="xngin-", dir="/tmp"))
        self.account.own(short)
        fresh = record.with_suffix(".new")
        fresh.write_text(os.fspath(short))
        fresh.replace(record)
        return short


def open_home(data_folder: Path) -> Home:
    """The home of this data folder, made when there is none. The caller holds the lock of the data folder.

    `postgres` in the data folder is the home, or a link to it when the server's account cannot get there.
    """
    place = data_folder / "postgres"
    if place.is_symlink() and not place.exists():
        place.unlink()  # What it pointed to has been removed, and the data with it.
    if not place.exists():
        _create_home(place)
    folder = place.resolve()
    facts = folder.stat()
    if os.geteuid() not in (0, facts.st_uid):
        raise belongs_to_another(folder, facts.st_uid)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_mode & 0o022:
        raise EmbeddedPostgresError(f"{folder} should be a folder that only its owner can write to.")
    account = _account(folder)
    if not account.can_enter(folder):
        raise EmbeddedPostgresError(
            f"The database in {folder} cannot be reached by {account.name}, whom its server runs as."
        )
    return Home(folder=folder, account=account)


def outside_folder(choices: Sequence[Path] = OUTSIDE_FOLDERS) -> Path:
    """The first of these that is root's alone, made when it is missing."""
    refusals = []
    for folder in choices:
        try:
            folder.mkdir(mode=0o711, exist_ok=True)
        except OSError as error:
            refusals.append(f"{folder}: {error.strerror}")
            continue
        # Whoever gets there first in /var/tmp owns that name.
        facts = folder.lstat()
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022:
            folder.chmod(0o711)
            return folder
        refusals.append(f"{folder}: not a folder of root that only root can write to")
    raise EmbeddedPostgresError(
        f"{_unprivileged().name}, whom the server would run as, cannot reach this checkout, and there is no other "
        f"place for the data ({'; '.join(refusals)})."
    )


def belongs_to_another(path: Path, uid: int) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"The embedded database at {path} belongs to {_account_of(uid).name} and cannot be used by "
        f"{_account_of(os.geteuid()).name}: run as that user, or set DATABASE_URL."
    )


def _create_home(place: Path) -> None:
    """Finished under another name first, since an end half way must not leave one with a wrong mode."""
    # Mode 711: the account passes through to its own folders, and can neither list nor change ours.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    if os.geteuid() != 0 or _unprivileged().can_enter(place.parent):
        home = Path(tempfile.mkdtemp(prefix="postgres-", dir=place.parent))
        home.chmod(mode)
        home.rename(place)
    else:
        home = Path(tempfile.mkdtemp(prefix="database-", dir=outside_folder()))
        (home / "belongs_to").write_text(f"{place.parent}\n")
        home.chmod(mode)
        place.symlink_to(home)


def _account(home: Path) -> Account:
    """Ourselves; for root whoever has made the home or its data, so that a run as root locks nobody out."""
    if os.geteuid() != 0:
        return _account_of(os.geteuid())
    owners = (folder.stat().st_uid for folder in (home, home / "cluster") if folder.exists())
    return next((_account_of(uid) for uid in owners if uid != 0), None) or _unprivileged()


def _unprivileged() -> Account:
    for name in UNPRIVILEGED_ACCOUNTS:
        try:
            return _account_of(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    raise EmbeddedPostgresError(
        f"PostgreSQL does not run as root, and there is no account {' or '.join(UNPRIVILEGED_ACCOUNTS)} to run it."
    )


def _account_of(uid: int) -> Account:
    becomes = os.geteuid() == 0 and uid != 0
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # Usual in containers that are given a number instead of a user.
        return Account(name=f"user {uid}", uid=uid, gid=os.getegid() if not becomes else uid, becomes=becomes)
    return Account(name=entry.pw_name, uid=uid, gid=entry.pw_gid, becomes=becomes)


def _is_private(folder: Path, uid: int) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == uid and stat.S_IMODE(facts.st_mode) == 0o700
