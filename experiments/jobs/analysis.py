"""The analysis of any experiment as the JSON of a snapshot. Nothing is stored, and no transaction is open while the
warehouse works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from django.db import connection

from experiments.jobs import bandit, frequentist, snapshot_data
from experiments.jobs.definition import Definition
from experiments.warehouse.session import Warehouse

type Warehouses = Callable[[str], AbstractContextManager[Warehouse]]
"""A session with the warehouse of a datasource, by its id."""


def analyze(definition: Definition, warehouses: Warehouses) -> dict[str, Any]:
    """Bandits are analysed from our own tables, whichever way their outcomes came there.

    Raises ``DatasourceError`` when the warehouse tells nothing, ``InvalidInput`` when nothing can be analysed.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (now,) = cursor.fetchone()
    if definition.experiment_type.is_bandit:
        return snapshot_data.of_bandit(definition, bandit.analyze(definition), at=now)
    with warehouses(definition.datasource_id) as warehouse:
        return snapshot_data.of_frequentist(definition, frequentist.analyze(definition, warehouse), at=now)
