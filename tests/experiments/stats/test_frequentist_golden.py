"""Every frequentist reference case, from sums made in memory. The same cases through SQL are with the jobs."""

import pytest

from tests.support import golden
from tests.support.golden_frequentist import analyzed, assert_metric


@pytest.mark.parametrize("case", golden.load("frequentist"), ids=str)
def test_reference_case_is_met(case: golden.Case) -> None:
    for metric in case.inputs["metrics"]:
        assert_metric(case, metric, analyzed(case, metric))
