"""For each event of the experiments' catalogue, the operation that says it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from types import MappingProxyType

from experiments.kinds import ExperimentState, ExperimentType
from experiments.models import Draw
from experiments.operations.lifecycle import abandon_experiment, commit_experiment
from experiments.operations.load import load_assignments
from experiments.operations.record import record_outcomes
from tests.contracts import run_emitters
from tests.contracts.emitters import SECRET
from tests.support.experiments import arms_of, make_experiment
from tests.support.sessions import Connect


def _commit(connect: Connect) -> None:
    commit_experiment(make_experiment(ExperimentType.MAB_ONLINE, state=ExperimentState.ASSIGNED).id)


def _abandon(connect: Connect) -> None:
    abandon_experiment(make_experiment(ExperimentType.MAB_ONLINE).id)


def _load(connect: Connect) -> None:
    experiment = make_experiment(ExperimentType.FREQ_ONLINE)
    load_assignments(experiment.id, io.BytesIO(f"participant_id,arm\n{SECRET},1\n".encode()))


def _record(connect: Connect) -> None:
    experiment = make_experiment(ExperimentType.MAB_ONLINE)
    Draw.objects.create(experiment=experiment, arm=arms_of(experiment)[0], participant_id=SECRET)
    record_outcomes(experiment.id, {SECRET: 1})


def _refuse(connect: Connect) -> None:
    record_outcomes(make_experiment(ExperimentType.MAB_ONLINE).id, {SECRET: 1, "other": SECRET})


EMITTERS: Mapping[str, Callable[[Connect], None]] = MappingProxyType(
    {
        "experiments.experiment.committed": _commit,
        "experiments.experiment.abandoned": _abandon,
        "experiments.assignments.loaded": _load,
        "experiments.outcomes.recorded": _record,
        "experiments.outcomes.refused": _refuse,
        **run_emitters.EMITTERS,
    }
)
