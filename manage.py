#!/usr/bin/env python3
"""Django's entry point. Its syntax is that of old Pythons, so that under one of them it can say what is missing."""

import sys


def main():
    if sys.version_info < (3, 12):
        sys.exit(
            "xngin-worker needs Python 3.12 or newer, and this is %d.%d; ./run finds one."
            % sys.version_info[:2]
        )
    try:
        import django  # noqa: F401
    except ImportError:
        sys.exit("Django is not installed for %s; ./run sets everything up and uses it." % sys.executable)
    from xngin_worker.cli import manage

    manage(sys.argv)


if __name__ == "__main__":
    main()
