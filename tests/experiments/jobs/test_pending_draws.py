"""Pages of pending draws: each draw once, in order, through the index, wherever a page begins."""

from __future__ import annotations

import pytest
from django.db import connection

from experiments.jobs import pending_draws
from experiments.jobs.pending_draws import BEGINNING, page_after
from experiments.kinds import ExperimentType
from experiments.models import Draw, Experiment
from experiments.operations.record import record_outcomes
from tests.support.experiments import make_experiment
from tests.support.job_runs import draw, draw_many

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment() -> Experiment:
    return make_experiment(ExperimentType.MAB_ONLINE)


def _pages(experiment: Experiment, rows: int) -> list[list[str]]:
    found = []
    page = page_after(BEGINNING, experiment.id, rows=rows)
    while page is not None:
        found.append(list(page.participants))
        page = page_after(page, experiment.id, rows=rows)
    return found


def test_the_oldest_come_first_and_those_of_one_instant_by_their_ids(experiment: Experiment) -> None:
    draw(experiment, ["Z", "a", "é", "B"], hours_ago=2)
    draw(experiment, ["first"], hours_ago=3)
    draw(experiment, ["last"], hours_ago=1)
    draw(make_experiment(ExperimentType.MAB_ONLINE), ["another's"], hours_ago=2)
    assert _pages(experiment, 2) == [["first", "B"], ["Z", "a"], ["é", "last"]]


def test_instants_come_in_the_order_of_time_whatever_their_text(experiment: Experiment) -> None:
    instants = ["-infinity", "0044-03-15 BC", "0999-01-01", "2026-01-01", "2026-01-01 00:00:00.5", "10000-01-01"]
    names = [f"p{number}" for number in reversed(range(len(instants)))]
    draw(experiment, names)
    with connection.cursor() as cursor:
        for name, instant in zip(names, instants, strict=True):
            cursor.execute("UPDATE draws SET created_at = %s WHERE participant_id = %s", [instant, name])
    assert _pages(experiment, 2) == [names[0:2], names[2:4], names[4:6]]


def test_draws_that_received_their_outcome_meanwhile_are_passed_over(experiment: Experiment) -> None:
    draw(experiment, ["a", "b", "c", "d"])
    page = page_after(BEGINNING, experiment.id, rows=1)
    assert page is not None
    record_outcomes(experiment.id, {"b": 1, "c": 0})
    following = page_after(page, experiment.id, rows=5)
    assert following is not None
    assert following.participants == ("d",)


def test_a_page_in_the_middle_is_found_by_the_index_alone(experiment: Experiment) -> None:
    draw_many(experiment, 4_000)
    Draw.objects.exclude(participant_id__endswith="7").update(
        outcome=0.0, autofailed_outcome=False, observed_at="2027-01-01T00:00:00Z"
    )
    middle = page_after(BEGINNING, experiment.id, rows=200)
    assert middle is not None
    parameters: dict[str, str | int] = {
        "experiment": experiment.id,
        "instant": middle.instant,
        "participant": middle.participants[-1],
        "until": "infinity",
        "rows": 50,
    }
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE draws")
        cursor.execute(f"EXPLAIN {pending_draws._PAGE}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index Scan using draws_pending" in plan
    assert "Presorted Key: created_at" in plan
