"""A worker killed in the middle of a pull: every outcome counts once, and the posterior is that of all of them."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.support.committed import commit_experiment
from tests.support.own_server import QueueDatabase
from tests.support.worker_process import StartWorker

# Three transactions' worth.
_DRAWS = 50_000


def test_a_pull_that_was_killed_between_chunks_is_finished_by_the_next(
    database: QueueDatabase, start_worker: StartWorker, tmp_path: Path
) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as warehouse:
        warehouse.execute(
            "CREATE TABLE participants AS SELECT 'p' || n AS id, (n % 3 = 0)::DOUBLE AS revenue FROM range(?) AS r(n)",
            [_DRAWS + 1],
        )
    experiment = commit_experiment(database, "mab_online_dwh", draws=_DRAWS)
    database.execute("""UPDATE datasources SET config = '{"type": "duckdb", "path": "shop.duckdb"}'""")
    options = ("--only", "jobs", "--poll-interval", "0.3", "--lease", "3")
    killed = start_worker(*options, XNGIN_DUCKDB_FOLDER=str(tmp_path))
    database.wait_for("SELECT 1 AS some FROM draws WHERE outcome IS NOT NULL LIMIT 1")
    killed.kill()
    (recorded,) = database.execute("SELECT count(outcome) AS n FROM draws")
    assert 0 < recorded["n"] < _DRAWS
    assert _counted(database, experiment) == recorded["n"]

    start_worker(*options, XNGIN_DUCKDB_FOLDER=str(tmp_path))
    database.wait_for("SELECT 1 AS lost FROM job_runs WHERE job = 'dwh_pull' AND status = 'lost'")
    # The backoff after a lost run, which nobody has time for here.
    database.execute("UPDATE job_states SET failed_at = failed_at - interval '1 day' WHERE failures > 0")
    database.wait_for("SELECT 1 AS done FROM job_runs WHERE job = 'dwh_pull' AND status = 'success'")

    (outcomes,) = database.execute("SELECT count(outcome) AS n, sum(outcome)::integer AS yes FROM draws")
    assert outcomes == {"n": _DRAWS, "yes": _DRAWS // 3}
    assert _counted(database, experiment) == _DRAWS
    (arm,) = database.execute("SELECT alpha, beta FROM arms WHERE n_outcomes > 0")
    assert (arm["alpha"] - 1, arm["beta"] - 1) == (_DRAWS // 3, _DRAWS - _DRAWS // 3)


def _counted(database: QueueDatabase, experiment: str) -> int:
    (arms,) = database.execute("SELECT sum(n_outcomes)::integer AS n FROM arms WHERE experiment_id = %s", [experiment])
    return int(arms["n"])
