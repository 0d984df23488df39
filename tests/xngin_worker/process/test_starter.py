"""Which parent's end counts as a signal: a shell that runs one command, and nothing else."""

from __future__ import annotations

import pytest

from xngin_worker.process.starter import is_shell_with_a_command


@pytest.mark.parametrize(
    "line",
    [
        "sh|-c|./run runworker",
        "/bin/sh|-c|./run runworker",
        "/bin/bash|-ec|./run runworker",
        "bash|-o|pipefail|-c|./run runworker",
        "bash|--noprofile|--norc|-c|./run runworker",
        "busybox|sh|-c|./run runworker",
    ],
)
def test_a_shell_given_a_command_is_watched(line: str) -> None:
    assert is_shell_with_a_command(line.split("|"))


@pytest.mark.parametrize(
    "line",
    [
        "-bash",
        "bash|-i",
        "bash|--noprofile|--norc|-eo|pipefail|/tmp/step.sh",
        "sh|start-worker|-c|4",
        "python3|-c|import subprocess",
        "/sbin/init",
        "",
    ],
)
def test_any_other_parent_is_not(line: str) -> None:
    assert not is_shell_with_a_command(line.split("|"))
