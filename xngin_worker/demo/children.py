"""The demo's other processes: started with their logs in files, watched, and ended together.

Each leads a session of its own, so that a Ctrl-C at the terminal reaches the demo alone, which then ends them in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xngin_worker.demo.interruption import Interruption
from xngin_worker.demo.steps import StepFailed
from xngin_worker.environment import PROJECT_FOLDER

STOP_SECONDS = 6.0
_KILLED_SECONDS = 5.0
_LAST_BYTES = 4_000

# Ends the groups named when its input ends without a word: then the demo was killed and can end nothing itself.
_GUARDIAN = 'read -r word || kill -s TERM -- "$@"'


class ChildEnded(StepFailed):
    """A process that should have gone on is gone."""


@dataclass(frozen=True, kw_only=True)
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_lines(self, count: int = 5) -> list[str]:
        with self.log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
            return file.read().decode(errors="replace").splitlines()[-count:]


class Children:
    """All of them. `stop` may be called at any time, and again."""

    def __init__(self, *, folder: Path, interruption: Interruption) -> None:
        self._folder = folder
        self._interruption = interruption
        self._children: list[Child] = []
        self._guardians: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str], *, descriptors: Sequence[int] = ()) -> Child:
        log = self._folder / f"{name}.log"
        # Between the birth of a process and its entry in the list a signal would leave it behind.
        with self._interruption.held_back(), log.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=PROJECT_FOLDER,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=descriptors,
                start_new_session=True,
            )
            child = Child(name=name, process=process, log=log)
            self._children.append(child)
            self._guardians.append(
                subprocess.Popen(
                    ["/bin/sh", "-c", _GUARDIAN, "guardian", f"-{process.pid}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
        return child

    def pause(self, seconds: float) -> None:
        """Wait a moment while all of them live. Raises `ChildEnded` when one is gone, and what an interruption does."""
        self._interruption.pause(seconds)
        for child in self._children:
            if (code := child.process.poll()) is not None:
                raise ChildEnded(f"the {child.name} ended by itself {ending(code)}")

    @property
    def ended(self) -> Sequence[Child]:
        return [child for child in self._children if child.process.poll() is not None]

    def stop(self) -> Mapping[str, int]:
        """End them all, gently and then by force; the exit code of each. Returns within seconds."""
        for child in self._children:
            child.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        codes: dict[str, int] = {}
        for child in self._children:
            try:
                child.process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                os.killpg(child.process.pid, signal.SIGKILL)
                child.process.wait(_KILLED_SECONDS)
            codes[child.name] = child.process.returncode
        for guardian in self._guardians:
            with contextlib.suppress(BrokenPipeError):
                guardian.communicate(b"\n", timeout=STOP_SECONDS)
        self._children, self._guardians = [], []
        return codes


def ending(code: int) -> str:
    """How a process came to its end, from the code that `Popen` has for it."""
    return f"with exit code {code}" if code >= 0 else f"by signal {signal.Signals(-code).name}"
