#!/usr/bin/env python3
"""Django's entry point, in the syntax of old Pythons, so that under one of them it says what is missing."""

import sys


def main():
    # type: () -> None
    if sys.version_info < (3, 12):  # noqa: UP036  # the oldest Python this file may meet is not ours to choose
        found = "%d.%d" % sys.version_info[:2]  # noqa: UP031
        sys.exit("xngin-worker needs Python 3.12 or newer and this is " + found + "; start it with ./run instead.")
    try:
        import django  # noqa: F401
    except ImportError:
        sys.exit("Django is not installed for " + sys.executable + "; start it with ./run instead.")
    from xngin_worker.cli import manage

    manage(sys.argv)


if __name__ == "__main__":
    main()
