"""Failing all expired draws of an experiment at once, beside one at a time in the same run, at three sizes.

    .venv/bin/python -m bench.autofail [--draws 100000] [--write]

Each kind of bandit is a process of its own on a new database, each size an experiment of its own. Exits 1 when
``--draws`` of them take more than 60 seconds, and fails when a posterior is not that of all draws.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import server

_ROOT = Path(__file__).resolve().parents[1]
_DATABASE = "bench_autofail"
_RESULTS = Path(__file__).parent / "results" / "autofail.md"
_SINGLES = 100
_LONGEST_SECONDS = 60.0

_DRAWS = """
    INSERT INTO draws (experiment_id, participant_id, arm_id, created_at, context_vals)
    SELECT %s, 'p' || n, (%s::text[])[n %% 2 + 1], now() - make_interval(hours => 25, secs => n / 1000.0),
        ({context})::float8[]
    FROM generate_series(1, %s) AS n
"""
_SINGLE_DRAWS = """
    INSERT INTO draws (experiment_id, participant_id, arm_id, context_vals)
    SELECT experiment_id, 'single' || n, arm_id, ({context})::float8[]
    FROM draws CROSS JOIN generate_series(1, %s) AS n
    WHERE experiment_id = %s AND participant_id = 'p1'
"""

# Name, type of experiment, what differs from its usual fields, the context of the draw n.
KINDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "Beta": ("mab_online", {}, "NULL"),
    "normal, 3 contexts": ("cmab_online", {}, "ARRAY[1, sin(n), (n % 7) / 7.0]"),
    "logistic, 3 contexts (14 different)": ("cmab_online", {"reward_type": "binary"}, "ARRAY[1, n % 2, (n % 7) / 7.0]"),
    "logistic, 3 contexts (all different)": (
        "cmab_online",
        {"reward_type": "binary"},
        "ARRAY[1, sin(n), cos(n * 7.0)]",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.autofail", description=__doc__)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help=f"write {_RESULTS.relative_to(_ROOT)}")
    arguments = parser.parse_args()
    sizes = [arguments.draws // 10, arguments.draws, arguments.draws * 4]
    found: dict[str, dict[str, float]] = {}
    with server.started() as started:
        for kind in KINDS:
            environment = {**os.environ, "DATABASE_URL": started.make(_DATABASE), "XNGIN_ENVIRONMENT": "development"}
            _call([sys.executable, "manage.py", "migrate", "--verbosity", "0"], environment)
            program = f"from bench.autofail import measure; measure({kind!r}, {sizes!r})"
            found[kind] = json.loads(_call([sys.executable, "-c", program], environment))
            print(kind, found[kind], flush=True)
            started.drop(_DATABASE)
    text = table(found, sizes)
    print(text)
    if arguments.write:
        _RESULTS.write_text(text)
    return int(any(seconds[str(arguments.draws)] > _LONGEST_SECONDS for seconds in found.values()))


def table(found: dict[str, dict[str, float]], sizes: list[int]) -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    lines = [
        "# Autofail\n",
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores shared with the database, load of the machine at the"
        f" end {load}. Seconds for all expired draws of one experiment in two arms, with posteriors; in brackets the"
        " draws a second.\n",
        "| bandit | "
        + " | ".join(f"{size:,} draws" for size in sizes)
        + " | one at a time (draws a second) | times as fast |",
        "|---" * (len(sizes) + 3) + "|",
    ]
    for kind, seconds in found.items():
        cells = [f"{seconds[str(size)]:.1f} ({size / seconds[str(size)]:,.0f})" for size in sizes]
        single = _SINGLES / seconds["singles"]
        together = sizes[1] / seconds[str(sizes[1])]
        lines.append(f"| {kind} | " + " | ".join(cells) + f" | {single:,.0f} | {together / single:,.0f} |")
    lines.append(
        f"\nOne at a time: {_SINGLES} draws through `record_outcome`, each in a transaction of its own, beside the"
        f" {sizes[1]:,} draws that have their outcome by then."
    )
    return "\n".join(lines) + "\n"


def measure(kind: str, sizes: list[int]) -> None:
    """In a process of its own, whose settings name the database; prints JSON."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    django.setup()
    from django.db import connection

    from experiments.jobs.autofail import fail_expired
    from experiments.kinds import ExperimentType, Job
    from experiments.operations.posteriors import recompute_posteriors
    from experiments.operations.record import record_outcome
    from tests.support.experiments import arms_of, make_experiment
    from tests.support.job_runs import open_run

    experiment_type, fields, context = KINDS[kind]
    context = context.replace("%", "%%")

    def make(draws: int) -> Any:
        experiment = make_experiment(ExperimentType(experiment_type), enable_autofail=True, **fields)
        arms = [arm.id for arm in arms_of(experiment)]
        with connection.cursor() as cursor:
            cursor.execute(_DRAWS.format(context=context), [experiment.id, arms, draws])
            cursor.execute("VACUUM ANALYZE draws")
        return experiment

    told: dict[str, float] = {}
    for size in sizes:
        experiment = make(size)
        run = open_run(experiment, Job.AUTOFAIL)
        told[str(size)] = _seconds(lambda run=run: fail_expired(run))  # type: ignore[misc]
        if recompute_posteriors(experiment.id).changed:
            raise SystemExit(f"{kind}: the posteriors are not those of all draws")
        if size == sizes[1]:
            with connection.cursor() as cursor:
                cursor.execute(_SINGLE_DRAWS.format(context=context), [_SINGLES, experiment.id])
            told["singles"] = _seconds(
                lambda experiment=experiment: [  # type: ignore[misc]
                    record_outcome(experiment.id, f"single{n}", 0, autofailed=True) for n in range(1, _SINGLES + 1)
                ]
            )
    print(json.dumps(told))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _call(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, cwd=_ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
