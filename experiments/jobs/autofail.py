"""The job that fills in the outcome of draws whose time is up.

A draw that received its real outcome keeps it, also when both happen at the same moment: the locks of
``record_outcomes`` let one come after the other, and who comes second finds an outcome.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from experiments.errors import InvalidInput, NotFound
from experiments.jobs.pending_draws import BEGINNING, page_after
from experiments.jobs.run import Outcome, Run
from experiments.operations.record import record_outcomes

# As many draws as one transaction fails: long enough to be worth its locks and a new posterior, short enough that
# whoever records an outcome of the same arms meanwhile hardly waits.
BATCH = 20_000


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """``until`` is the instant, by the database's clock, up to which draws have expired."""

    enabled: bool
    outcome: float
    until: str


def fail_expired(run: Run) -> Outcome:
    """Fail all draws that had expired when the run began, in batches; each is committed with its arms' posteriors.

    Raises ``InvalidInput`` when a posterior leaves the range of double precision, ``Conflict`` when the experiment is
    not committed (any more), ``RunCancelled`` and ``RunLost`` between batches.
    """
    rule = _rule_of(run.experiment_id)
    if not rule.enabled:
        return Outcome(message="autofail is switched off for this experiment (enable_autofail)")
    failed = kept = batches = 0
    page = page_after(BEGINNING, run.experiment_id, rows=BATCH, until=rule.until)
    while page is not None:
        run.cancellation.check()
        with run.writing():
            report = record_outcomes(run.experiment_id, dict.fromkeys(page.participants, rule.outcome), autofailed=True)
        if report.refused:
            # The database keeps such a value out of the definition; nothing would ever end these draws.
            raise InvalidInput(report.refused[0].reason, field="autofail_outcome_value")
        failed += report.applied
        kept += report.already_had
        batches += 1
        page = page_after(page, run.experiment_id, rows=BATCH, until=rule.until)
    return Outcome(counts={"failed": failed, "kept": kept, "batches": batches})


def _rule_of(experiment_id: str) -> _Rule:
    with connection.cursor() as cursor:
        # Hours of elapsed time, which a change of the clocks does not stretch.
        cursor.execute(
            """
            SELECT enable_autofail, autofail_outcome_value,
                (clock_timestamp() - make_interval(hours => autofail_window))::text
            FROM experiments WHERE id = %s
            """,
            [experiment_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound(f"there is no experiment {experiment_id!r}", field="experiment")
    enabled, outcome, until = row
    return _Rule(enabled=enabled, outcome=outcome, until=until)
