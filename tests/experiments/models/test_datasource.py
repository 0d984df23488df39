"""A changed config has idle sessions pruned: one task a datasource, however many edits and whoever makes them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from experiments.models import Datasource
from taskqueue.models import Task
from tests.support.experiments import make_datasource

pytestmark = pytest.mark.django_db


def _edit(datasource: Datasource, number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE datasources SET config = jsonb_build_object('port', %s::int) WHERE id = %s", [number, datasource.id]
        )


def test_ten_edits_in_a_row_are_one_task_a_second_ahead() -> None:
    datasource, other = make_datasource(), make_datasource()
    for number in range(10):
        _edit(datasource, number)
    _edit(other, 1)

    tasks = {task.payload["datasource_id"]: task for task in Task.objects.all()}  # type: ignore[index]
    assert set(tasks) == {datasource.id, other.id}
    assert len(tasks) == Task.objects.count()
    task = tasks[datasource.id]
    assert task.task_type == "maintenance.prune_warehouse_clients"
    assert task.embargo_until - task.created_at == timedelta(seconds=1)


def test_an_edit_while_the_task_runs_is_another_task() -> None:
    datasource = make_datasource()
    _edit(datasource, 1)
    Task.objects.update(status="running", attempt=1, lease_until=timezone.now(), worker_id="w")
    _edit(datasource, 2)
    assert sorted(Task.objects.values_list("status", flat=True)) == ["pending", "running"]


def test_what_leaves_the_config_as_it_is_has_nothing_pruned() -> None:
    datasource = make_datasource(config={"port": 1})
    _edit(datasource, 1)
    Datasource.objects.update(name="another name")
    assert not Task.objects.exists()
