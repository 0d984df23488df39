"""The end of the process, which no handler can hold up."""

import atexit
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End now, after what was registered for the end (log handlers, the embedded server) has run.

    Python's own end waits for threads of executors, and an async handler that blocks its loop sits in one.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
