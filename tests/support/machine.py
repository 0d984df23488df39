"""A machine for the script `run`: a small checkout, a PATH with exactly what is put there, and a log of what the
programs on it were asked to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from xngin_worker.environment import PROJECT_FOLDER

TOOLS = ("sh", "cat", "cksum", "cp", "dirname", "flock", "mkdir", "mv", "ps", "readlink", "rm", "sleep", "tail")

# Where the Python of these tests finds its own library, if it has to be told.
LIBRARIES = {name: text for name, text in os.environ.items() if name.endswith("LIBRARY_PATH")}

# Tells what it was started as, and with "wait" goes on until a signal comes.
PROGRAM = """
import json, os, signal, sys
print(json.dumps([NAME, sys.argv[1:], os.getcwd(), os.getpid()]), flush=True)
if sys.argv[1:2] == ["wait"]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print("waiting", flush=True)
    signal.pause()
"""

# A Python that makes environments and installs uv without a network; all else the real one does.
PYTHON = """#!/bin/sh
echo "${{0##*/}} $1 $2 $3" >> {log}
case "$1 $2 $3" in
    "-m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m pip --version") ;;
    "-m pip install") cp {uv} "$(dirname "$0")/uv" ;;
    *) exec {real} "$@" ;;
esac
"""

UV = """#!/bin/sh
case $1 in
    --version) exit 0 ;;
    python) exit {finds} ;;
esac
echo "uv $* python=${{UV_PYTHON:-}} environment=$UV_PROJECT_ENVIRONMENT downloads=$UV_PYTHON_DOWNLOADS" >> {log}
mkdir -p .venv/bin
[ -e .venv/bin/python ] || cp {python} .venv/bin/python
exit {syncs}
"""

OLD_PYTHON = """#!/bin/sh
exec {real} -c 'import sys; sys.version_info = (3, 8, 18); exec(sys.argv[2])' "$@"
"""

PYTHON_WITHOUT_VENV = """#!/bin/sh
case $2 in *ensurepip*) exit 1 ;; esac
exec {real} "$@"
"""

BROKEN = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A checkout, a PATH, and a log of what the programs on it were asked to do."""

    checkout: Path
    path: Path
    folder: Path

    @property
    def script(self) -> Path:
        return self.checkout / "run"

    @property
    def venv(self) -> Path:
        return self.checkout / ".venv"

    def has(self, name: str, text: str) -> None:
        """Put a program on the PATH."""
        self.put(self.path / name, text)

    def put(self, name: str | Path, text: str) -> None:
        program = self.folder / name
        program.write_text(text.format(**self._words))
        program.chmod(0o755)

    def has_uv(self, *, finds: int = 0, syncs: int = 0) -> None:
        self.has("uv", UV.replace("{finds}", str(finds)).replace("{syncs}", str(syncs)))

    def asked(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def start(self, *words: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(word) for word in words],
            cwd=cwd or self.folder,
            env={**LIBRARIES, "PATH": str(self.path), "HOME": str(self.folder), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with self.start(self.script, *words, cwd=None, **variables) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    @property
    def _words(self) -> dict[str, str]:
        return {
            "log": str(self.folder / "log"),
            "real": sys.executable,
            "uv": str(self.folder / "inner-uv"),
            "python": str(self.folder / "inner-python"),
        }


def build_machine(folder: Path) -> Machine:
    """A machine without any Python or uv in its PATH."""
    # A blank and a quote in the path, as people have them.
    machine = Machine(checkout=folder / "my check'out", path=folder / "bin", folder=folder)
    machine.checkout.mkdir()
    link_tools(machine.path)
    shutil.copy(PROJECT_FOLDER / "run", machine.checkout)
    (machine.checkout / "uv.lock").write_text("version = 1\n")
    (machine.checkout / ".python-version").write_text("3.13\n")
    (machine.checkout / "manage.py").write_text(PROGRAM.replace("NAME", "'manage.py'"))
    (machine.checkout / "pytest.py").write_text(PROGRAM.replace("NAME", "'pytest'"))
    machine.put("inner-python", PYTHON)
    machine.put("inner-uv", UV.replace("{finds}", "0").replace("{syncs}", "0"))
    return machine


def link_tools(path: Path) -> None:
    """Make the folder, with links to the tools that every machine has."""
    path.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (path / name).symlink_to(found)
