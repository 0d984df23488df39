"""``python -m tests.support.puller``: a process that pulls the outcomes of one experiment, so that it can be killed.

Standard input says ``{"database": name, "run": id, "experiment": id, "folder": path, "batch": rows}``; the folder
holds the DuckDB file that is its warehouse.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def pull(told: dict[str, Any]) -> None:
    from experiments.jobs import outcome_pull
    from experiments.jobs.run import Run
    from experiments.jobs.sessions import Sessions
    from experiments.kinds import Job
    from tests.support.warehouses import DuckDBFile

    file = DuckDBFile(Path(told["folder"]))
    run = Run(id=told["run"], job=Job.DWH_PULL, experiment_id=told["experiment"])
    outcome_pull.BATCH = told["batch"]
    outcome_pull.pull_outcomes(run, sessions=Sessions(lambda _: file.open()))


if __name__ == "__main__":
    import django
    from django.db import connections

    django.setup()
    told = json.load(sys.stdin)
    connections.databases["default"]["NAME"] = told["database"]
    pull(told)
