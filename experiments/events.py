"""The catalogue of what this app says about itself, sent by ``taskqueue.telemetry.emit`` like the queue's own.

No participant's id, no outcome and no secret is ever among the fields.
"""

import logging

from taskqueue.events import EventType

CATALOGUE: dict[str, EventType] = {}


def _declare(name: str, level: int, keys: tuple[str, ...], meaning: str) -> EventType:
    CATALOGUE[name] = EventType(name=name, level=level, keys=keys, meaning=meaning)
    return CATALOGUE[name]


COMMITTED = _declare(
    "experiments.experiment.committed",
    logging.INFO,
    ("experiment_id", "experiment_type", "webhooks", "webhooks_skipped"),
    "An experiment was committed; `webhooks` were told, disabled ones were skipped.",
)
ABANDONED = _declare(
    "experiments.experiment.abandoned",
    logging.INFO,
    ("experiment_id", "experiment_type", "was"),
    "An experiment was abandoned; `was` is the state it left.",
)
ASSIGNMENTS_LOADED = _declare(
    "experiments.assignments.loaded",
    logging.INFO,
    ("experiment_id", "loaded", "already_there"),
    "Assignments were loaded from a file.",
)
OUTCOMES_RECORDED = _declare(
    "experiments.outcomes.recorded",
    logging.INFO,
    ("experiment_id", "applied", "already_had", "autofailed"),
    "Outcomes of draws were recorded, and the posteriors of their arms are up to date.",
)
OUTCOMES_REFUSED = _declare(
    "experiments.outcomes.refused",
    logging.WARNING,
    ("experiment_id", "conflicts", "unknown", "invalid"),
    "Outcomes were not recorded: another one is stored, there is no such draw, or the value cannot be one.",
)

_RUN_KEYS = ("run_id", "job", "experiment_id", "worker_id")
_ENDED_KEYS = (*_RUN_KEYS, "datasource_id", "latency_ms", "late_ms", "counts", "error_code")

RUN_STARTED = _declare(
    "experiments.run.started",
    logging.DEBUG,
    (*_RUN_KEYS, "datasource_id", "late_ms"),
    "A maintenance job began; `late_ms` is the time since it was due.",
)
RUN_SUCCEEDED = _declare("experiments.run.succeeded", logging.INFO, _ENDED_KEYS, "A maintenance job is done.")
RUN_FAILED = _declare(
    "experiments.run.failed",
    logging.WARNING,
    _ENDED_KEYS,
    "A maintenance job failed and is tried again later; its row in `job_runs` has the message.",
)
RUN_RELEASED = _declare(
    "experiments.run.released",
    logging.INFO,
    _ENDED_KEYS,
    "A stopping worker gave a maintenance job back; it is due again at once.",
)
RUN_LOST = _declare(
    "experiments.run.lost",
    logging.WARNING,
    _RUN_KEYS,
    "A run was no longer open when its worker renewed or closed it: another worker had found it expired. Its later"
    " writes are refused.",
)
RUN_EXPIRED = _declare(
    "experiments.run.expired",
    logging.WARNING,
    (*_RUN_KEYS, "lost_worker_id"),
    "A worker closed the run of another one that had stopped renewing it; the job is tried again later.",
)
RUN_STUCK = _declare(
    "experiments.run.stuck",
    logging.ERROR,
    (*_RUN_KEYS, "stuck", "slots"),
    "A maintenance job did not return after it was told to stop; its slot is lost until the process ends.",
)
