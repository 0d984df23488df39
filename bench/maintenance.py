"""Maintenance jobs: what the due query takes among many experiments and draws, and what the scheduler adds to a job.

    .venv/bin/python -m bench.maintenance [--only due,overhead] [--quick]

Ends with 1 when a bound was missed.
"""

import argparse
import sys
from collections.abc import Callable

from bench.maintenance_database import MaintenanceDatabase
from bench.server import started

_MEASURES = ("due", "overhead")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.maintenance", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", default=",".join(_MEASURES), help=f"of {', '.join(_MEASURES)}")
    parser.add_argument("--quick", action="store_true", help="the smallest size of each: does it run?")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(_MEASURES):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(_MEASURES)}")
    with started() as server:
        server.facts()
        database = MaintenanceDatabase(server)
        try:
            met = [_measure(name)(database, options.quick) for name in names]
        finally:
            database.drop()
    if not all(met):
        sys.exit("a bound was missed")


def _measure(name: str) -> Callable[[MaintenanceDatabase, bool], bool]:
    """Imported only now: these need Django, which needs the database."""
    if name == "due":
        from bench import due_query

        return lambda database, quick: due_query.measure(database, due_query.SIZES[: 1 if quick else None])
    from bench import job_overhead

    return lambda database, quick: job_overhead.measure(database, job_overhead.SIZES[: 1 if quick else None])


if __name__ == "__main__":
    main()
