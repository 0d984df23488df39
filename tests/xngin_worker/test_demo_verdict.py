"""What the demo takes for near the truth, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.kinds import ExperimentType, Job
from xngin_worker.demo.trials import truth
from xngin_worker.demo.trials.upkeep import is_kept_up
from xngin_worker.demo.trials.verdict import Judged, judge


@pytest.mark.parametrize(
    ("true", "holds", "is_far_off"),
    [
        (9.0, True, False),
        (11.0, True, False),
        (11.01, False, False),
        (12.0, False, False),
        (12.01, False, True),
        (7.99, False, True),
    ],
)
def test_the_interval_decides_and_twice_the_interval_is_too_far(true: float, holds: bool, is_far_off: bool) -> None:
    judged = Judged(what="basket", estimate=10.0, low=9.0, high=11.0, truth=true)
    assert (judged.holds, judged.is_far_off) == (holds, is_far_off)


def test_arms_are_judged_by_their_own_truth() -> None:
    data: dict[str, Any] = {
        "arm_analyses": [
            {"arm_name": name, "post_pred_mean": rate, "post_pred_ci_lower": rate, "post_pred_ci_upper": rate}
            for name, rate in truth.BUTTON_RATES.items()
        ]
    }
    assert all(one.holds for one in judge(ExperimentType.MAB_ONLINE, data))
    first, last = data["arm_analyses"][0], data["arm_analyses"][-1]
    first["arm_name"], last["arm_name"] = last["arm_name"], first["arm_name"]
    assert [one.is_far_off for one in judge(ExperimentType.MAB_ONLINE, data)] == [True, False, False, True]


def test_an_offer_is_worth_its_average_over_the_contexts() -> None:
    contexts = [(1.0, 2.0, 0.0), (1.0, 8.0, 1.0)]
    expected = sum(truth.chance_of_purchase("gift", context) for context in contexts) / 2
    data = {
        "arm_analyses": [
            {"arm_name": "gift", "post_pred_mean": 0.2, "post_pred_ci_lower": 0.1, "post_pred_ci_upper": 0.3}
        ]
    }
    (judged,) = judge(ExperimentType.CMAB_ONLINE, data, contexts)
    assert judged.truth == pytest.approx(expected, rel=1e-12)


def test_a_number_that_is_missing_is_no_success() -> None:
    data = {
        "arm_analyses": [
            {"arm_name": "grey", "post_pred_mean": None, "post_pred_ci_lower": None, "post_pred_ci_upper": None}
        ]
    }
    with pytest.raises(TypeError):
        list(judge(ExperimentType.MAB_ONLINE, data))


@pytest.mark.parametrize(
    ("kind", "done", "kept_up"),
    [
        (ExperimentType.FREQ_ONLINE, [], False),
        (ExperimentType.FREQ_ONLINE, [Job.SNAPSHOT], True),
        (ExperimentType.MAB_ONLINE, [Job.SNAPSHOT], False),
        (ExperimentType.MAB_ONLINE, [Job.SNAPSHOT, Job.AUTOFAIL], False),
        (ExperimentType.MAB_ONLINE, [Job.AUTOFAIL, Job.SNAPSHOT], True),
        # Later runs of either change nothing of that.
        (ExperimentType.MAB_ONLINE_DWH, [Job.SNAPSHOT, Job.DWH_PULL, Job.SNAPSHOT, Job.DWH_PULL], True),
        (ExperimentType.MAB_ONLINE_DWH, [Job.SNAPSHOT, Job.DWH_PULL, Job.DWH_PULL], False),
    ],
)
def test_an_experiment_is_kept_up_by_a_snapshot_after_its_other_jobs(
    kind: ExperimentType, done: list[Job], kept_up: bool
) -> None:
    assert is_kept_up(kind, done) is kept_up
