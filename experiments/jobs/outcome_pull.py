"""The job that fetches the outcomes of pending draws from the warehouse and records them.

Chunk by chunk: what the warehouse says of those that were asked for, then one transaction that records it with the
arms' posteriors. A run that is killed leaves whole chunks, and the next one asks for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from django.db import connection

from experiments.errors import DatasourceError, InvalidInput
from experiments.jobs.definition import Definition, read_definition
from experiments.jobs.identities import written_twice
from experiments.jobs.pending_draws import BEGINNING, Page, page_after
from experiments.jobs.pull_report import PullReport
from experiments.jobs.run import Outcome, Run
from experiments.jobs.sessions import Sessions
from experiments.kinds import Job
from experiments.models import Draw
from experiments.operations.record import CONFLICT, record_outcomes
from experiments.warehouse.names import find_column
from experiments.warehouse.outcomes import OutcomeRow
from experiments.warehouse.pairs import Chunk, chunks, id_rule, limits
from experiments.warehouse.query import Query, outcomes
from experiments.warehouse.session import Warehouse

# The most draws whose outcomes one transaction records, where the warehouse takes as many in one parameter; see
# ``autofail.BATCH``.
BATCH = 20_000


def pull_outcomes(run: Run, *, sessions: Sessions) -> Outcome:
    """Ask for every draw that was pending when the run began. What cannot be an outcome is told and stops nobody.

    Raises ``DatasourceError``, ``InvalidInput`` for an experiment whose outcomes are not in a warehouse, ``Conflict``
    when it is not committed (any more), ``RunCancelled`` and ``RunLost`` between chunks.
    """
    definition = read_definition(run.experiment_id)
    if not Job.DWH_PULL.applies_to(definition.experiment_type):
        raise InvalidInput(
            f"the outcomes of a {definition.experiment_type} do not come from a warehouse", field="experiment_type"
        )
    report = PullReport()
    try:
        with sessions.use(definition.datasource_id, run.cancellation) as warehouse:
            pull = _Pull(run, definition, warehouse, report)
            for page in _pages(run.experiment_id, rows=min(limits(warehouse.dialect).rows, BATCH)):
                run.cancellation.check()
                pull.page(page)
    except DatasourceError:
        # What a cancelled warehouse says is not why the run ends.
        run.cancellation.check()
        raise
    return report.outcome()


class _Pull:
    """One pass over the pending draws. Raises ``DatasourceError`` at once for a table or column that is missing."""

    def __init__(self, run: Run, definition: Definition, warehouse: Warehouse, report: PullReport) -> None:
        self._run = run
        self._warehouse = warehouse
        self._report = report
        table = warehouse.describe(definition.warehouse_table)
        id_column = find_column(table, definition.warehouse_id)
        self._rule = id_rule(id_column)
        self._query: Query[OutcomeRow] = outcomes(
            dialect=warehouse.dialect,
            table=table,
            id_column=id_column,
            outcome=find_column(table, _metric(definition)),
        )
        draws = Draw.objects.filter(experiment_id=definition.id)
        self._ambiguous = written_twice(draws) if self._rule.folds else frozenset[str]()

    def page(self, page: Page) -> None:
        self._report.count("pending", len(page.participants))
        asked = dict(self._to_ask(page.participants))
        pairs = ((canonical, 0, None) for canonical in asked)
        for chunk in chunks(pairs, limits(self._warehouse.dialect)):
            self._run.cancellation.check()
            self._apply(self._ask(chunk, asked))

    def _to_ask(self, participants: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Ids as they are sent, and as the draws write them. One that cannot be of the column's type has no row."""
        for participant in participants:
            canonical = self._rule.canonical(participant)
            if canonical is None:
                self._report.count("not_in_warehouse")
            elif canonical in self._ambiguous:
                self._report.refuse(participant, "another draw has the same id in other capitals")
            else:
                yield canonical, participant

    def _ask(self, chunk: Chunk, asked: Mapping[str, str]) -> dict[str, object]:
        """Values by participant, of those that have one. Rows of anybody who was not asked for are passed over."""
        rows = self._query.parse(self._warehouse.fetch(self._query.sql, chunk.parameter))
        values: dict[str, object] = {}
        found = 0
        for row in rows:
            participant = asked.get(row.participant)
            if participant is None:
                continue
            found += 1
            if not row.agreed:
                self._report.refuse(participant, f"its {row.n_rows:,} rows in the warehouse do not agree")
            elif row.non_finite:
                self._report.refuse(participant, "an outcome must be a finite number, not NaN or infinity")
            elif row.value is None:
                self._report.count("null")
            else:
                values[participant] = row.value
        self._report.count("not_in_warehouse", chunk.rows - found)
        return values

    def _apply(self, values: Mapping[str, object]) -> None:
        if not values:
            return
        with self._run.writing():
            recorded = record_outcomes(self._run.experiment_id, values)
        self._report.count("recorded", recorded.applied)
        self._report.count("already_had", recorded.already_had)
        for refused in recorded.refused:
            self._report.refuse(refused.participant_id, refused.reason, conflict=refused.code == CONFLICT)


def _metric(definition: Definition) -> str:
    """Raises ``InvalidInput`` unless there is exactly one; the database commits no other such experiment."""
    if len(definition.metrics) != 1:
        raise InvalidInput(f"{definition.id} needs exactly one field of use metric, its outcome", field="fields")
    return definition.metrics[0]


def _pages(experiment_id: str, *, rows: int) -> Iterator[Page]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()::text")
        (now,) = cursor.fetchone()
    page = page_after(BEGINNING, experiment_id, rows=rows, until=now)
    while page is not None:
        yield page
        page = page_after(page, experiment_id, rows=rows, until=now)
