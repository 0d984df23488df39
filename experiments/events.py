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
