"""Done-when of the queue: 10,000 tasks, 3 workers killed with -9 at random for two minutes, every task a success.

    .venv/bin/python -m bench.soak [--tasks N] [--workers N] [--seconds S] [--seed N]

Prints a table, and exits 1 when a task did not end in success, ran again without its attempt being recorded as lost,
or was finished twice.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support import own_server
from tests.support.soak import Plan, soak


def main() -> None:
    options = _options()
    plan = Plan(
        tasks=options.tasks,
        workers=options.workers,
        seconds=options.seconds,
        life_seconds=(1.0, 12.0),
        longest_sleep_seconds=0.1,
        seed=options.seed,
    )
    with own_server.started() as server, tempfile.TemporaryDirectory() as folder:
        database = server.create()
        result = soak(database, Path(folder), plan, say=_say)
        database.close()
    print(file=sys.stderr)
    print(plan)
    print(result.table())
    sys.exit(1 if result.violations else 0)


def _say(line: str) -> None:
    print(f"\r{line}", end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1, help="another number, other moments of death (1)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
