"""Every frequentist reference case, from sums made in memory. The same cases through SQL are with the jobs."""

import pytest

from tests.support import golden
from tests.support.golden_frequentist import analyzed, assert_metric, sums


@pytest.mark.parametrize("case", golden.load("frequentist"), ids=str)
def test_reference_case_is_met(case: golden.Case) -> None:
    for metric in case.inputs["metrics"]:
        assert_metric(case, metric, analyzed(case, metric))


@pytest.mark.parametrize("case", [case for case in golden.load("frequentist") if case.inputs["clustered"]], ids=str)
def test_residuals_of_clusters_multiply_to_the_matrix_of_the_reference(case: golden.Case) -> None:
    for metric, expected in case.expected["metrics"].items():
        arms, cells = sums(case, metric)
        assert cells is not None
        by_name = dict(zip(case.inputs["arms"], arms, strict=True))
        used = [by_name[name] for name in expected["cluster_meat"]["arms"]]
        residuals = [cells.residuals(arm.arm, sd=arm.moments.sd or 0.0).residual for arm in used]
        matrix = [[float(a @ b) for b in residuals] for a in residuals]
        golden.assert_close(case, matrix, expected["cluster_meat"]["matrix"], what=f"{metric}: cluster_meat")
