"""What ``bench.analysis`` measures, each in a process of its own: ``fill``, ``product`` or ``naive``; prints JSON."""

import json
import os
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "xngin_worker.settings")
django.setup()

import numpy as np  # noqa: E402 - Django first
from django.db import connection  # noqa: E402

from experiments.jobs import frequentist  # noqa: E402
from experiments.jobs.definition import read_definition  # noqa: E402
from experiments.models import Experiment  # noqa: E402
from experiments.warehouse.addresses import Rules  # noqa: E402
from experiments.warehouse.config import parse_config  # noqa: E402
from experiments.warehouse.opening import open_warehouse  # noqa: E402
from experiments.warehouse.session import Warehouse  # noqa: E402

_METRICS = {
    "revenue": "DOUBLE PRECISION",
    "minutes": "DOUBLE PRECISION",
    "price": "NUMERIC(12,2)",
    "visits": "BIGINT",
    "returned": "BOOLEAN",
}
_ARMS = 3
_FILE = "people.duckdb"


def fill(folder: Path, participants: int) -> None:
    """Assignments in our tables, and the same outcomes in a PostgreSQL table and a DuckDB file."""
    import duckdb
    import pandas

    from experiments.kinds import ExperimentState, ExperimentType
    from tests.support.experiments import arms_of, make_experiment

    random = np.random.default_rng(20260301)
    arm = random.integers(0, _ARMS, participants)
    people = pandas.DataFrame(
        {
            "id": [f"person_{number:09d}" for number in range(participants)],
            "revenue": random.lognormal(3.0, 1.0, participants) + 0.2 * arm,
            "minutes": random.normal(40.0, 12.0, participants) - 0.1 * arm,
            "price": np.round(random.gamma(2.0, 20.0, participants), 2),
            "visits": random.poisson(5.0 + 0.05 * arm),
            "returned": random.random(participants) < 0.3 + 0.01 * arm,
        }
    )
    start = datetime.now(UTC)
    experiment = make_experiment(
        ExperimentType.FREQ_PREASSIGNED,
        arms=_ARMS,
        metrics=list(_METRICS),
        state=ExperimentState.ASSIGNED,
        start_date=start,
        end_date=start + timedelta(days=1),
        datasource_table="people",
    )
    ids = [one.id for one in arms_of(experiment)]
    described = ", ".join(f"{name} {kind}" for name, kind in {"id": "TEXT", **_METRICS}.items())
    with connection.cursor() as cursor:
        with cursor.copy("COPY arm_assignments (experiment_id, participant_id, arm_id) FROM STDIN") as copy:
            for person, index in zip(people["id"], arm.tolist(), strict=True):
                copy.write_row((experiment.id, person, ids[index]))
        cursor.execute(f"CREATE TABLE people ({described})")
        with cursor.copy("COPY people FROM STDIN") as copy:
            for row in people.itertuples(index=False):
                copy.write_row(row)
        cursor.execute("ALTER TABLE people ADD PRIMARY KEY (id)")
    connection.close()
    import psycopg

    with psycopg.connect(**_plain_parameters(), autocommit=True) as vacuuming:
        vacuuming.execute("VACUUM ANALYZE")
    file = folder / _FILE
    file.unlink(missing_ok=True)
    with duckdb.connect(str(file)) as warehouse:
        warehouse.register("frame", people)
        warehouse.execute(f"CREATE TABLE people ({described})")
        warehouse.execute("INSERT INTO people SELECT * FROM frame")


class Counting:
    """A warehouse that counts the characters of what it is asked and of what it answers."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._warehouse, name)

    def fetch(self, sql: str, parameter: str | None = None) -> list[tuple[object, ...]]:
        rows = self._warehouse.fetch(sql, parameter)
        self.bytes += len(sql) + len(parameter or "") + sum(len(str(value)) for row in rows for value in row)
        return rows


def product(folder: Path, engine: str) -> dict[str, Any]:
    definition = read_definition(Experiment.objects.get().id)
    with open_warehouse(parse_config(_config(engine)), rules=_rules(folder)) as opened:
        counting = Counting(opened)
        idle, begun = _resident(), time.monotonic()
        analysis = frequentist.analyze(definition, counting)  # type: ignore[arg-type]
        seconds = time.monotonic() - begun
    results = []
    for metric in analysis.metrics:
        assert metric.result is not None, metric.reason
        for arm in metric.result.arms[1:]:
            assert arm.effect is not None
            assert arm.effect.robust.std_error is not None
            results.append((arm.effect.estimate, arm.effect.robust.std_error))
    return _report(seconds, idle, counting.bytes, results)


def naive(folder: Path, engine: str) -> dict[str, Any]:
    import duckdb
    import pandas
    import psycopg
    import statsmodels.api

    columns = ", ".join(["id", *_METRICS])
    with psycopg.connect(**_plain_parameters()) as ours:
        ours.execute("SELECT 1")
        warehouse = duckdb.connect(str(folder / _FILE), read_only=True)
        idle, begun = _resident(), time.monotonic()
        query = "SELECT participant_id, position FROM arm_assignments JOIN arms ON arms.id = arm_id"
        assigned = pandas.DataFrame(ours.execute(query).fetchall(), columns=["id", "arm"])
        if engine == "postgresql":
            rows = ours.execute(f"SELECT {columns} FROM people").fetchall()
            people = pandas.DataFrame(rows, columns=["id", *_METRICS])
        else:
            people = warehouse.execute(f"SELECT {columns} FROM people").df()
        merged = assigned.merge(people, on="id", how="left")
        arms = pandas.get_dummies(merged["arm"], drop_first=True, dtype=float)
        design = statsmodels.api.add_constant(arms)
        results = []
        for metric in _METRICS:
            fitted = statsmodels.api.OLS(merged[metric].astype(float), design).fit(cov_type="HC1")
            results += [(float(fitted.params[arm]), float(fitted.bse[arm])) for arm in arms.columns]
        seconds = time.monotonic() - begun
        report = _report(seconds, idle, 0, results)
        # What the pulled rows weigh as text; counted afterwards, since it is no part of the work.
        with ours.cursor().copy(f"COPY (SELECT {columns} FROM people) TO STDOUT") as copy:
            report["bytes"] = sum(len(block) for block in copy)
        return report


def _config(engine: str) -> dict[str, Any]:
    if engine == "duckdb":
        return {"type": "duckdb", "path": _FILE}
    settings = _plain_parameters()
    return {
        "type": "postgresql",
        "host": str(settings["host"]),
        "port": int(str(settings.get("port") or 5432)),
        "database": settings["dbname"],
        "user": settings["user"],
        "password": settings.get("password") or "none",
    }


def _rules(folder: Path) -> Rules:
    from ipaddress import ip_network

    return Rules(allowed_networks=(ip_network("127.0.0.0/8"),), duckdb_folder=folder)


def _plain_parameters() -> dict[str, Any]:
    known = ("host", "port", "dbname", "user", "password")
    settings = dict(connection.get_connection_params())
    return {name: settings[name] for name in known if settings.get(name)}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _report(seconds: float, idle: int, moved: int, results: list[Any]) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "megabytes": (peak - idle) / 1e6, "bytes": moved, "results": results}


if __name__ == "__main__":
    word, where, last = sys.argv[1:]
    if word == "fill":
        fill(Path(where), int(last))
    else:
        print(json.dumps({"product": product, "naive": naive}[word](Path(where), last)))
