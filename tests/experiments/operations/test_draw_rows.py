"""The statements around outcomes look draws up by their key, however many there are at once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from experiments.kinds import ExperimentType
from experiments.operations.record import record_outcomes
from tests.support.experiments import make_experiment
from tests.support.job_runs import draw_many

pytestmark = pytest.mark.django_db

_DRAWS, _AT_ONCE = 5_000, 2_000


class _Plans:
    """Collects the plan of each statement about draws, of the moment before it runs."""

    def __init__(self) -> None:
        self.plans: list[str] = []

    def __call__(self, execute: Any, sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
        if " draws" in sql and not sql.startswith("EXPLAIN"):
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {sql}", parameters)
                self.plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return execute(sql, parameters, many, context)


@pytest.mark.parametrize("known", ["all", "others", "nothing"])
def test_a_batch_of_outcomes_never_reads_all_draws_of_its_experiment(known: str) -> None:
    """What statistics know: a table that was filled in the last minute has none."""
    if known == "others":
        for _ in range(20):
            draw_many(make_experiment(ExperimentType.MAB_ONLINE), 100)
        _analyze()
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    draw_many(experiment, _DRAWS)
    if known == "all":
        _analyze()
    plans = _Plans()
    with connection.execute_wrapper(plans):
        record_outcomes(experiment.id, {f"p{n}": n % 2 for n in range(1, _AT_ONCE + 1)})

    # Found, locked, summed up, and written for each of two arms.
    assert len(plans.plans) == 5
    for plan in plans.plans:
        assert "using draws_pkey on draws" in plan or "Bitmap Index Scan on draws_pkey" in plan, plan
        assert "draws_pending" not in plan, plan
        assert "Seq Scan on draws" not in plan, plan
        conditions = [line for line in plan.splitlines() if "Index Cond" in line and "experiment_id" in line]
        # The whole key, for each that is looked up.
        assert conditions, plan
        assert all("new.participant_id" in condition for condition in conditions), plan


def _analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE draws")
