"""One analysis of many participants with five metrics, beside the naive way, on PostgreSQL and on DuckDB.

    .venv/bin/python -m bench.analysis [--participants 1000000] [--rounds 3] [--write]

The naive way pulls all rows, joins them with pandas and fits a regression with HC1 errors per metric with statsmodels.
Every run is a process of its own; both must find the same estimates and standard errors, or the bench fails.
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import server

_ROOT = Path(__file__).resolve().parents[1]
_DATABASE = "bench_analysis"
_ENGINES = ("postgresql", "duckdb")
_WAYS = ("product", "naive")
_RESULTS = Path(__file__).parent / "results" / "analysis.md"
_CLOSE = 1e-8

type Run = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.analysis", description=__doc__)
    parser.add_argument("--participants", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {_RESULTS.relative_to(_ROOT)}")
    arguments = parser.parse_args()
    with server.started() as started:
        url = started.make(_DATABASE)
        folder = _ROOT / ".data" / "bench" / "warehouses"
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, "DATABASE_URL": url, "XNGIN_ENVIRONMENT": "development"}
        _call([sys.executable, "manage.py", "migrate", "--verbosity", "0"], environment)
        _measured(["fill", str(folder), str(arguments.participants)], environment)
        runs: dict[tuple[str, str], list[Run]] = {}
        for number in range(arguments.rounds):
            for engine in _ENGINES:
                for way in _WAYS if number % 2 == 0 else reversed(_WAYS):
                    run = _measured([way, str(folder), engine], environment)
                    runs.setdefault((engine, way), []).append(run)
                    print(engine, way, {name: run[name] for name in ("seconds", "megabytes", "bytes")}, flush=True)
        _compare(runs)
        text = _markdown(runs, arguments.participants, arguments.rounds)
        print(text)
        if arguments.write:
            _RESULTS.write_text(text)
        started.drop(_DATABASE)


def _measured(arguments: list[str], environment: dict[str, str]) -> Run:
    output = _call([sys.executable, "-m", "bench.one_analysis", *arguments], environment)
    return dict(json.loads(output)) if output.strip() else {}


def _call(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _compare(runs: dict[tuple[str, str], list[Run]]) -> None:
    wanted = runs["postgresql", "naive"][0]["results"]
    for key, ones in runs.items():
        for run in ones:
            for got, right in zip(run["results"], wanted, strict=True):
                for value, reference in zip(got, right, strict=True):
                    if abs(value - reference) > _CLOSE * abs(reference):
                        raise SystemExit(f"{key} found {value}, the first naive run {reference}")


def _markdown(runs: dict[tuple[str, str], list[Run]], participants: int, rounds: int) -> str:
    lines = [
        "# One analysis beside the naive way\n",
        f"{datetime.now(UTC):%Y-%m-%d}: {participants:,} participants in three arms, five metrics (two doubles,"
        f" a decimal, an integer, a boolean), median of {rounds} round(s), on {os.cpu_count()} cores shared with the"
        " database. All runs found the same estimates and HC1 errors.\n",
        "| warehouse | way | seconds | memory above idle (MB) | moved to and from the warehouse (MB) |",
        "|---|---|---:|---:|---:|",
    ]
    for (engine, way), ones in sorted(runs.items()):
        lines.append(
            f"| {engine} | {way} | {_median(ones, 'seconds'):.1f} | {_median(ones, 'megabytes'):.0f} "
            f"| {_median(ones, 'bytes') / 1e6:.1f} |"
        )
    lines.append("")
    for engine in _ENGINES:
        ratio = _median(runs[engine, "naive"], "seconds") / _median(runs[engine, "product"], "seconds")
        lines.append(f"- {engine}: {ratio:.1f} times as fast as the naive way")
    return "\n".join(lines) + "\n"


def _median(runs: list[Run], name: str) -> float:
    return float(median(run[name] for run in runs))


if __name__ == "__main__":
    main()
