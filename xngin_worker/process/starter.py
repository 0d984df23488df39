"""The shell a worker was started through, as in `sh -c "./run runworker"`.

Some shells neither become the worker nor pass signals on: a SIGTERM ends the shell and leaves the worker behind. So
the end of such a shell counts as the signal that it kept to itself. Any other parent may end without us.
"""

import os
import re
from collections.abc import Sequence
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


def is_shell_with_a_command(words: Sequence[str]) -> bool:
    """Whether this command line is a shell that was given a command by -c.

    Without it somebody sits at the shell, or it runs a script: both may start a worker and leave it behind.
    """
    if not words or Path(words[0].lstrip("-")).name not in _SHELLS:
        return False
    previous = ""
    for word in words[1:]:
        if re.fullmatch(r"-[A-Za-z]*c", word):
            return True
        takes_a_name = previous[:1] in ("-", "+") and previous[-1:] in ("o", "O") and not previous.startswith("--")
        applet = previous == "" and word in _SHELLS
        if not word.startswith(("-", "+")) and not takes_a_name and not applet:
            return False
        previous = word
    return False


def _find() -> Starter:
    parent = os.getppid()
    try:
        words = Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return Starter(shell=None)
    return Starter(shell=parent if is_shell_with_a_command(words) else None)


# Found at import, which is early: later the shell might be gone.
starter = _find()
