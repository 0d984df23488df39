"""One run of a job function: what it returns or raises becomes the closing of the run. It never raises itself."""

from collections.abc import Callable

import psycopg
import structlog
from django.db import DEFAULT_DB_ALIAS, connections

from experiments.errors import ExperimentError
from experiments.jobs.run import JobFunction, Outcome, Run, RunLost
from experiments.models import RunStatus
from experiments.scheduler.ledger import Closing
from taskqueue.redaction import redacted_text
from taskqueue.text import MESSAGE_LIMIT, message_of, storable

TIMEOUT = "timeout"


def execute(function: JobFunction, run: Run) -> Closing | None:
    """None when the run is no longer open. Afterwards this thread has no connection to the database."""
    with structlog.contextvars.bound_contextvars(run_id=run.id, job=run.job.value, experiment_id=run.experiment_id):
        try:
            try:
                with run.cancellation.calling(_canceller()):
                    return _success(run, function(run))
            finally:
                _leave_no_connection()
        except RunLost:
            return None
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like are a failed run too
            return failure(run, error)


def failure(run: Run, error: BaseException) -> Closing:
    code = error.code if isinstance(error, ExperimentError) else type(error).__name__
    # The text of an error of ours begins with its code, that of any other with its type.
    text = message_of(error)
    if isinstance(error, ExperimentError):
        text = f"{code}: {text.partition(': ')[2] or text}"
    return Closing(run_id=run.id, status=RunStatus.FAILED, message=_clean(text), error_code=storable(code, 200))


def out_of_time(run: Run, reason: str) -> Closing:
    return Closing(run_id=run.id, status=RunStatus.FAILED, message=f"{TIMEOUT}: {reason}", error_code=TIMEOUT)


def _success(run: Run, outcome: object) -> Closing:
    if not isinstance(outcome, Outcome):
        raise TypeError(f"the job returned {type(outcome).__name__}, and must return an Outcome")
    return Closing(
        run_id=run.id,
        status=RunStatus.SUCCESS,
        message=None if outcome.message is None else _clean(outcome.message),
        counts={storable(str(name), 200): int(count) for name, count in outcome.counts.items()},
    )


def _clean(text: str) -> str:
    return storable(redacted_text(storable(text)), MESSAGE_LIMIT)


def _canceller() -> Callable[[], None]:
    """What ends the statement that this thread runs in our own database, called from another thread."""
    wrapper = connections[DEFAULT_DB_ALIAS]

    def cancel() -> None:
        raw = wrapper.connection
        if raw is None or raw.closed:
            return
        try:
            raw.cancel_safe(timeout=5.0)
        except psycopg.Error:
            # The connection or the server is gone, and its statement with it.
            return

    return cancel


def _leave_no_connection() -> None:
    for connection in connections.all(initialized_only=True):
        try:
            connection.close()
        except Exception:  # noqa: BLE001 - a job that succeeded does not fail because its connection cannot be closed
            connection.connection = None
