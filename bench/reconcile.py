"""A reconciliation of many draws: how long each check takes, and how much memory the process that reads needs.

    .venv/bin/python -m bench.reconcile [--draws 5000000] [--write]

A tenth of the draws first, then all, each in processes of their own on a new database: Beta, linear with three
contexts, and logistic with three contexts that are all different. Exits 1 when the reading process takes more than 300
MB, and fails when a healthy database has a finding or a posterior moved by a hundredth has none.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import server

_ROOT = Path(__file__).resolve().parents[1]
_DATABASE = "bench_reconcile"
_RESULTS = Path(__file__).parent / "results" / "reconcile.md"
_MOST_MEGABYTES = 300

# Share of the draws, type of experiment, what differs from its usual fields, the context of the draw n.
_KINDS: tuple[tuple[float, str, dict[str, Any], str], ...] = (
    (0.4, "mab_online", {}, "NULL"),
    (0.3, "cmab_online", {}, "ARRAY[1, round(sin(n)::numeric, 3), n % 7]"),
    (0.3, "cmab_online", {"reward_type": "binary"}, "ARRAY[1, sin(n), cos(n * 7.0)]"),
)
_FILL = """
    INSERT INTO draws (experiment_id, participant_id, arm_id, context_vals, outcome, autofailed_outcome, observed_at)
    SELECT %s, 'p' || n, (%s::text[])[n %% 2 + 1], ({context})::float8[], (n %% 3 = 0)::int, false, now()
    FROM generate_series(1, %s) AS n
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.reconcile", description=__doc__)
    parser.add_argument("--draws", type=int, default=5_000_000)
    parser.add_argument("--write", action="store_true", help=f"write {_RESULTS.relative_to(_ROOT)}")
    parser.add_argument("--step", choices=sorted(_STEPS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        print(json.dumps(_STEPS[arguments.step](arguments.draws)))
        return 0
    found = {}
    with server.started() as started:
        for draws in (arguments.draws // 10, arguments.draws):
            url = started.make(_DATABASE)
            filled = _step("fill", draws, url)
            read = _step("read", draws, url)
            damaged = _step("damage", draws, url)
            if read["findings"] != 0 or damaged["findings"] != 3:
                raise SystemExit(f"findings: {read['findings']} without damage, {damaged['findings']} of 3 damages")
            found[draws] = read
            print(f"{draws:,}", filled, read, flush=True)
        started.drop(_DATABASE)
    text = _markdown(found)
    print(text)
    if arguments.write:
        _RESULTS.write_text(text)
    return 0 if found[arguments.draws]["megabytes"] <= _MOST_MEGABYTES else 1


def _step(step: str, draws: int, url: str) -> dict[str, Any]:
    environment = {**os.environ, "DATABASE_URL": url, "XNGIN_LOG_LEVEL": "ERROR"}
    command = [sys.executable, "-m", "bench.reconcile", "--step", step, "--draws", str(draws)]
    done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def _set_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
    import django

    django.setup()


def _fill(draws: int) -> dict[str, Any]:
    """Without triggers, whose work is not what is measured; sums and posteriors come from all draws afterwards."""
    _set_up()
    from django.core.management import call_command
    from django.db import connection, transaction

    from experiments.kinds import ExperimentType
    from experiments.operations.posteriors import recompute_posteriors
    from tests.support.experiments import arms_of, make_experiment

    call_command("migrate", verbosity=0)
    began = time.monotonic()
    for share, experiment_type, fields, context in _KINDS:
        experiment = make_experiment(ExperimentType(experiment_type), **fields)
        arms = [arm.id for arm in arms_of(experiment)]
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(_FILL.format(context=context.replace("%", "%%")), [experiment.id, arms, int(draws * share)])
        recompute_posteriors(experiment.id)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE draws")
    return {"filled_in_seconds": round(time.monotonic() - began, 1)}


def _read(draws: int) -> dict[str, Any]:
    _set_up()
    from taskqueue.reconciliation.reading import collect, one_view
    from taskqueue.reconciliation.rules import registry

    seconds = {}
    findings = 0
    for check in registry.checks():
        began = time.monotonic()
        with one_view("default", rule_seconds=3600):
            findings += collect("default", rules=[rule.name for rule in check.rules], rule_seconds=3600).found
        seconds[check.rules[0].name] = round(time.monotonic() - began, 1)
    return {
        "findings": findings,
        "seconds": round(sum(seconds.values()), 1),
        "slowest": {name: taken for name, taken in seconds.items() if taken >= 0.1},
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _damage(draws: int) -> dict[str, Any]:
    """A posterior of each experiment, moved by a hundredth, is found."""
    _set_up()
    from django.db import connection

    from taskqueue.reconciliation.reading import collect, one_view

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE arms SET alpha = alpha * 1.01, mu = CASE WHEN mu IS NOT NULL THEN"
            " ARRAY[mu[1] + 0.01] || mu[2:] END WHERE position = 1"
        )
    with one_view("default", rule_seconds=3600):
        return {
            "findings": collect(
                "default",
                rules=["experiments.posterior", "experiments.contextual_posterior"],
                rule_seconds=3600,
            ).found
        }


_STEPS = {"fill": _fill, "read": _read, "damage": _damage}


def _markdown(found: dict[int, dict[str, Any]]) -> str:
    lines = [
        "# A reconciliation of many draws\n",
        f"{datetime.now(UTC):%Y-%m-%d}: all draws with outcomes; four tenths Beta, three linear with three contexts,"
        f" three logistic with three contexts that are all different; on {os.cpu_count()} cores shared with the"
        " database. Memory is the most that the reading process ever held, its libraries included.\n",
        "| draws | seconds | memory (MB) | slowest checks (seconds) |",
        "|---:|---:|---:|---|",
    ]
    for draws, read in found.items():
        slowest = sorted(read["slowest"].items(), key=lambda each: -each[1])
        named = ", ".join(f"{name} {taken:g}" for name, taken in slowest)
        lines.append(f"| {draws:,} | {read['seconds']:.1f} | {read['megabytes']} | {named} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
