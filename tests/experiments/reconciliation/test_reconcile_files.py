"""From the run to the applied plan through its file, for numbers that JSON and jsonb write in ways of their own."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from experiments.kinds import ExperimentType, PriorType, RewardType
from experiments.models import Arm, Draw
from experiments.operations.record import record_outcomes
from taskqueue.models import Event, ReconciliationReport
from tests.support.experiments import arms_of, make_experiment


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("unit", [1.0, 1e-30, 1e60, 1 / 3])
def test_sums_and_posteriors_of_any_size_are_mended_through_the_file(tmp_path: Path, unit: float) -> None:
    experiment = make_experiment(
        ExperimentType.MAB_ONLINE,
        arms=[{"mu_init": 0.0, "sigma_init": unit}] * 2,
        prior_type=PriorType.NORMAL.value,
        reward_type=RewardType.REAL_VALUED.value,
    )
    for n in range(6):
        Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[n % 2], participant_id=f"p{n}")
    record_outcomes(experiment.id, {f"p{n}": n * unit for n in range(6)})
    right = list(Arm.objects.order_by("id").values("n_outcomes", "sum_y", "sum_yy", "mu", "covariance"))
    Arm.objects.update(mu=[1e300], sum_y="1e30", sum_yy="0.10")

    with pytest.raises(SystemExit, match="1"):
        call_command("reconcile", "run", stdout=StringIO())
    call_command("reconcile", "plan", ReconciliationReport.objects.get().id, "-o", tmp_path / "plan", stdout=StringIO())
    call_command("reconcile", "apply", tmp_path / "plan", "--confirm", "--actor", "ann", stdout=StringIO())

    assert list(Arm.objects.order_by("id").values("n_outcomes", "sum_y", "sum_yy", "mu", "covariance")) == right
    assert Event.objects.filter(type="reconciliation.repaired").count() == 4
