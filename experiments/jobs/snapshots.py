"""The job that stores what is known of an experiment: one analysis, kept as a snapshot.

All ``pending`` rows that were there before the analysis began get its result; without any, a new row is inserted.
No transaction is open while the analysis runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import connection
from django.db.utils import DatabaseError

from experiments.errors import DatasourceError, ExperimentError
from experiments.jobs.analysis import analyze
from experiments.jobs.definition import read_definition
from experiments.jobs.run import Outcome, Run, RunCancelled, RunLost
from experiments.jobs.sessions import Sessions
from experiments.models.snapshot import SnapshotStatus
from taskqueue.redaction import redacted_text
from taskqueue.text import message_of, storable, storable_json

_PENDING = "SELECT id FROM snapshots WHERE experiment_id = %s AND status = 'pending'"
_BROKEN_BEFORE = """
    SELECT metric ->> 'metric_name', coalesce(metric ->> 'failed_since', data ->> 'analyzed_at')
    FROM (
        SELECT data FROM snapshots WHERE experiment_id = %s AND status = 'success' ORDER BY created_at DESC LIMIT 1
    ) AS last, jsonb_array_elements(data -> 'metric_analyses') AS metric
    WHERE metric ->> 'status' = 'failed'
"""
# A row that somebody deleted or settled meanwhile is passed over.
_SERVE = """
    UPDATE snapshots SET status = %(status)s, data = %(data)s::jsonb, message = %(message)s, run_id = %(run)s,
        updated_at = now()
    WHERE id = ANY(%(pending)s) AND status = 'pending'
"""
_INSERT = """
    INSERT INTO snapshots (experiment_id, status, data, message, run_id)
    VALUES (%(experiment)s, %(status)s, %(data)s::jsonb, %(message)s, %(run)s)
"""


def take_snapshot(run: Run, *, sessions: Sessions) -> Outcome:
    """Analyse the experiment and store the result, also when it failed: then the error is raised all the same.

    A run that was told to stop stores nothing, so that what was pending is still wanted. A metric that the warehouse
    cannot tell is named in the snapshot, with since when; the run fails when there is no other one.
    """
    pending = _pending(run)
    try:
        data = _analyze(run, sessions)
    except (RunCancelled, RunLost, DatabaseError):
        # The last is a fault of our own database, or of a statement that was cancelled there.
        run.cancellation.check()
        raise
    except Exception as error:
        # What a cancelled warehouse says is not why the run ends.
        run.cancellation.check()
        _store(run, pending, SnapshotStatus.FAILED, message=_text(error))
        raise
    broken = _broken(data)
    message = None if not broken else "; ".join(map(_broken_text, broken))
    written = _store(run, pending, SnapshotStatus.SUCCESS, data=data, message=message)
    return Outcome(message=message, counts={"snapshots": written, **_counts(data)})


def _analyze(run: Run, sessions: Sessions) -> dict[str, Any]:
    definition = read_definition(run.experiment_id)
    data = analyze(definition, partial(sessions.use, cancellation=run.cancellation))
    run.cancellation.check()
    broken = _broken(data)
    if broken and len(broken) == len(data["metric_analyses"]):
        said = "; ".join(f"{metric['metric_name']!r}: {metric['reason']}" for metric in broken)
        raise DatasourceError(f"no metric could be analysed: {said}", code=broken[0]["error_code"])
    if broken:
        since = _broken_since(run.experiment_id)
        for metric in broken:
            metric["reason"] = _clean(metric["reason"])
            metric["failed_since"] = since.get(metric["metric_name"]) or data["analyzed_at"]
    return data


def _broken(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [metric for metric in data.get("metric_analyses", ()) if metric["status"] == "failed"]


def _broken_since(experiment_id: str) -> dict[str, str]:
    """What the last successful snapshot says of the metrics that were broken then."""
    with connection.cursor() as cursor:
        cursor.execute(_BROKEN_BEFORE, [experiment_id])
        return dict(cursor.fetchall())


def _broken_text(metric: Mapping[str, Any]) -> str:
    return (
        f"the metric {metric['metric_name']!r} could not be analysed since {metric['failed_since']}:"
        f" {metric['error_code']}: {metric['reason']}"
    )


def _counts(data: Mapping[str, Any]) -> dict[str, int]:
    counts = data["counts"]
    if "metric_analyses" in data:
        return {
            "assigned": counts["n_assigned"],
            "not_in_warehouse": counts["n_not_in_warehouse"],
            "metrics": len(data["metric_analyses"]),
            "metrics_failed": len(_broken(data)),
        }
    return {"draws": counts["n_draws"], "outcomes": counts["n_outcomes"]}


def _pending(run: Run) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, [run.experiment_id])
        return [id for (id,) in cursor.fetchall()]


def _store(
    run: Run,
    pending: Sequence[str],
    status: SnapshotStatus,
    *,
    data: Mapping[str, Any] | None = None,
    message: str | None = None,
) -> int:
    """How many rows have the result."""
    parameters = {
        "experiment": run.experiment_id,
        "pending": list(pending),
        "status": status.value,
        "data": None if data is None else storable_json(data),
        "message": None if message is None else _clean(message),
        "run": run.id,
    }
    with run.writing(), connection.cursor() as cursor:
        cursor.execute(_SERVE, parameters)
        served = int(cursor.rowcount)
        if served == 0:
            cursor.execute(_INSERT, parameters)
        return max(served, 1)


def _text(error: Exception) -> str:
    """What a person reads: the code and the words of our own errors, the class of any other."""
    return f"{error.code}: {error}" if isinstance(error, ExperimentError) else message_of(error)


def _clean(text: str) -> str:
    return storable(redacted_text(storable(text)))
