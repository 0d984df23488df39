"""What a transaction that somebody forgot costs: claims at the end of a long queue beside those at its beginning.

    .venv/bin/python -m bench.old_transaction [--tasks 200000]

Dead rows cannot be cleaned up while an old snapshot may need them, so each claim steps over what was claimed before.
Prints the seconds for the first and the last 1,000 tasks, with such a transaction and without.
"""

import argparse
import time

from tests.support import own_server
from tests.support.claim_times import first_and_last
from tests.support.own_server import OwnServer
from tests.support.worker_process import WorkerProcess

_SAMPLE = 1000
_LONGEST_SECONDS = 1200.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.old_transaction", description=__doc__)
    parser.add_argument("--tasks", type=int, default=200_000)
    tasks = parser.parse_args().tasks
    with own_server.started() as server:
        for held in (False, True):
            _drain(server, tasks, held=held)


def _drain(server: OwnServer, tasks: int, *, held: bool) -> None:
    database = server.create()
    database.insert_many(tasks, "test.noop")
    database.execute("ANALYZE")
    with database.connection(autocommit=False) as old:
        if held:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT 1")
        begun = time.monotonic()
        worker = WorkerProcess(database.url, XNGIN_LOG_LEVEL="WARNING")
        try:
            database.wait_until_done(seconds=_LONGEST_SECONDS)
        finally:
            worker.clear_away()
    first, last = first_and_last(database, sample=_SAMPLE)
    print(
        f"{'with' if held else 'without'} an old transaction: {tasks} tasks in {time.monotonic() - begun:.1f} s; "
        f"first {_SAMPLE}: {first:.3f} s, last {_SAMPLE}: {last:.3f} s, {last / first:.1f} times as long",
        flush=True,
    )
    database.close()
    server.drop(database.name)


if __name__ == "__main__":
    main()
