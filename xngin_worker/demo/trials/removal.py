"""What demos leave in the database: their experiments are ended with them, and taken away by the next one."""

from __future__ import annotations

from django.db import connection, transaction

from experiments.errors import Conflict
from experiments.kinds import ExperimentState
from experiments.models import Experiment
from experiments.operations.lifecycle import abandon_experiment
from xngin_worker.demo.trials.experiments import ORGANIZATION

# Participants first, since they keep their experiment; the rest of an experiment goes with it.
_STATEMENTS = (
    "DELETE FROM draws WHERE experiment_id IN ({of_demo})",
    "DELETE FROM arm_assignments WHERE experiment_id IN ({of_demo})",
    "DELETE FROM experiments WHERE id IN ({of_demo})",
    "DELETE FROM datasources WHERE organization_id = %(organization)s",
    "DELETE FROM webhooks WHERE organization_id = %(organization)s",
    "DELETE FROM organizations WHERE id = %(organization)s",
)
_OF_DEMO = (
    "SELECT e.id FROM experiments e JOIN datasources d ON d.id = e.datasource_id"
    " WHERE d.organization_id = %(organization)s"
)


def remove_earlier() -> int:
    """How many experiments of earlier demos there were."""
    before = Experiment.objects.filter(datasource__organization_id=ORGANIZATION).count()
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in _STATEMENTS:
            cursor.execute(statement.format(of_demo=_OF_DEMO), {"organization": ORGANIZATION})
    return before


def end() -> None:
    """Abandon the experiments, or any worker would go on with them and miss the demo's warehouses."""
    running = Experiment.objects.filter(datasource__organization_id=ORGANIZATION, state=ExperimentState.COMMITTED.value)
    for id in running.values_list("id", flat=True):
        try:
            abandon_experiment(id)
        except Conflict:
            # Somebody else pressed the button first.
            continue
