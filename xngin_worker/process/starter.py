"""The shell a worker was started through, as in `sh -c "./run runworker"`.

Some shells neither become the worker nor pass signals on: a SIGTERM ends the shell and leaves the worker behind. So
the end of such a shell counts as the signal that it kept to itself. Any other parent may end without us.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_SHELLS = frozenset({"sh", "ash", "bash", "busybox", "dash", "ksh", "zsh"})


@dataclass(frozen=True, kw_only=True)
class Starter:
    """``shell`` is the number of the shell's process; None when the parent is something else, or unknown."""

    shell: int | None

    @property
    def gone(self) -> bool:
        return self.shell is not None and os.getppid() != self.shell


def _find() -> Starter:
    parent = os.getppid()
    try:
        words = Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return Starter(shell=None)
    name = Path(words[0].lstrip("-")).name
    # With -c it runs a command line; without, somebody sits at it or it runs a script, which may leave us behind.
    runs_a_line = any(word.startswith("-") and word.endswith("c") for word in words[1:3])
    return Starter(shell=parent if name in _SHELLS and runs_a_line else None)


# Found at import, which is early: later the shell might be gone.
starter = _find()
