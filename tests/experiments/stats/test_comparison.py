"""Probability of being best and expected loss against independent calculations, also for extreme posteriors."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate as scipy_integrate
from scipy import stats
from scipy.special import expit, ndtr

from experiments.stats.comparison import Comparison, compare
from experiments.stats.marginals import Betas, LocationScale
from experiments.stats.quadrature import integrate


def _betas(*parameters: tuple[float, float]) -> Comparison:
    alphas, betas = zip(*parameters, strict=True)
    return compare(Betas(alphas=np.array(alphas, dtype=float), betas=np.array(betas, dtype=float)))


def _normals(*arms: tuple[float, float], df: float = math.inf, logit: bool = False) -> Comparison:
    centres, spreads = zip(*arms, strict=True)
    return compare(
        LocationScale(
            centres=np.array(centres, dtype=float),
            spreads=np.array(spreads, dtype=float),
            dfs=np.full(len(arms), df),
            logit=logit,
        )
    )


def _exact(first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
    """P(first > second) and E[(second - first)+] of integer Betas: polynomials, integrated as fractions."""
    a, b = (_polynomial(*pair) for pair in (first, second))
    cdf_a, cdf_b = _antiderivative(a), _antiderivative(b)
    best = _integral(_times(a, cdf_b))
    one_minus_b = [Fraction(int(i == 0)) - value for i, value in enumerate(cdf_b)]
    loss = _integral(_times(cdf_a, one_minus_b))
    return float(best), float(loss)


def _polynomial(alpha: int, beta: int) -> list[Fraction]:
    constant = Fraction(math.factorial(alpha + beta - 1), math.factorial(alpha - 1) * math.factorial(beta - 1))
    result = [Fraction(0)] * (alpha + beta - 1)
    for k in range(beta):
        result[alpha - 1 + k] = constant * math.comb(beta - 1, k) * (-1) ** k
    return result


def _antiderivative(p: list[Fraction]) -> list[Fraction]:
    return [Fraction(0), *(value / (i + 1) for i, value in enumerate(p))]


def _times(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    result = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            result[i + j] += a * b
    return result


def _integral(p: list[Fraction]) -> Fraction:
    return sum(_antiderivative(p), Fraction(0))


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 1), (1, 1)), ((2, 5), (4, 3)), ((1, 30), (30, 1)), ((20, 25), (12, 9)), ((3, 40), (9, 2))],
)
def test_integer_betas_agree_with_exact_fractions(first: tuple[int, int], second: tuple[int, int]) -> None:
    got = _betas(first, second)
    best, loss = _exact(first, second)
    other_best, other_loss = _exact(second, first)
    assert got.p_best == pytest.approx((best, other_best), rel=1e-10, abs=1e-300)
    assert got.expected_loss == pytest.approx((loss, other_loss), rel=1e-10)


@pytest.mark.parametrize("sd", [1e-9, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("distance", [0.0, 1.0, 7.0, 25.0])
def test_two_normals_agree_with_the_closed_form(sd: float, distance: float) -> None:
    spread = sd * math.sqrt(1 + 0.25)
    got = _normals((0.0, sd), (distance * sd, sd / 2))
    z = distance * sd / spread
    assert got.p_best == pytest.approx((ndtr(-z), ndtr(z)), rel=1e-9)
    losses = [spread * stats.norm.pdf(z) + distance * sd * ndtr(z), spread * _normal_loss(z)]
    assert got.expected_loss == pytest.approx(losses, rel=1e-9)


def _normal_loss(z: float) -> float:
    """E[(Z - z)+]; by integration, since the closed form cancels for large z."""
    return float(scipy_integrate.quad(lambda t: t * stats.norm.pdf(z + t), 0, 12, epsabs=0, epsrel=1e-12, limit=200)[0])


@pytest.mark.parametrize("df", [2.0, 3.7, 30.0])
def test_student_t_arms_agree_with_scipy(df: float) -> None:
    arms = ((0.0, 1.0), (0.5, 2.0), (-1.0, 0.3))
    got = _normals(*arms, df=df)
    for index, (centre, spread) in enumerate(arms):
        others = [arm for other, arm in enumerate(arms) if other != index]

        def integrand(t: float, centre: float = centre, spread: float = spread, others: list = others) -> float:  # type: ignore[type-arg]
            return float(
                stats.t.pdf(t, df, centre, spread) * np.prod([stats.t.cdf(t, df, mean, sd) for mean, sd in others])
            )

        points = [-20.0, -3.0, 0.0, 3.0, 20.0, 1000.0]
        pieces = [
            scipy_integrate.quad(integrand, low, high, epsabs=1e-12, limit=200)[0] for low, high in pairwise(points)
        ]
        tail = scipy_integrate.quad(integrand, 1000.0, math.inf, epsabs=1e-12, limit=200)[0]
        assert got.p_best[index] == pytest.approx(sum(pieces) + tail, abs=1e-7)


def test_logistic_arms_are_compared_as_probabilities() -> None:
    arms = ((0.0, 1.0), (0.5, 2.0))
    got = _normals(*arms, logit=True)

    def integrand(t: float) -> float:
        latent = math.log(t / (1 - t))
        first, second = (ndtr((latent - mean) / sd) for mean, sd in arms)
        return float(first * (1 - second))

    loss = scipy_integrate.quad(integrand, 0, 1, epsabs=1e-13, limit=300)[0]
    assert got.expected_loss[0] == pytest.approx(loss, abs=1e-9)
    assert got.p_best[1] == pytest.approx(ndtr(0.5 / math.sqrt(5)), rel=1e-10)
    # What one loses more, the other gains: the losses differ by the difference of the means.
    z = np.linspace(-12, 12, 20_001)
    weights = np.exp(-z * z / 2) / np.sum(np.exp(-z * z / 2))
    means = [float(np.sum(weights * expit(mean + sd * z))) for mean, sd in arms]
    assert got.expected_loss[0] - got.expected_loss[1] == pytest.approx(means[1] - means[0], rel=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [(1e7, 1e7), (1e-3, 1e-3), (1e-3, 1e7), (1e7, 1e-3), (0.2, 50.0), (1.0, 1.0), (1e12, 3.0)],
    ids=str,
)
@pytest.mark.parametrize("arms", [2, 20])
def test_equal_arms_share_the_probability_and_the_loss(parameters: tuple[float, float], arms: int) -> None:
    got = _betas(*[parameters] * arms)
    assert got.p_best == pytest.approx([1 / arms] * arms, rel=1e-8)
    assert len(set(got.expected_loss)) == 1 or max(got.expected_loss) == pytest.approx(
        min(got.expected_loss), rel=1e-12
    )


def test_millions_of_outcomes_agree_with_the_normal_limit() -> None:
    got = _betas((1e7, 1e7), (1e7 + 3000, 1e7))
    sd = math.hypot(0.5 / math.sqrt(2e7), 0.5 / math.sqrt(2e7 + 3000))
    difference = (1e7 + 3000) / (2e7 + 3000) - 0.5
    assert got.p_best[1] == pytest.approx(ndtr(difference / sd), abs=1e-6)
    assert got.expected_loss[0] - got.expected_loss[1] == pytest.approx(difference, rel=1e-8)


def test_small_probabilities_and_losses_keep_their_digits() -> None:
    hopeless = _betas((1, 30), (30, 1))
    assert hopeless.p_best[0] == pytest.approx(_exact((1, 30), (30, 1))[0], rel=1e-10)
    assert 0 < hopeless.p_best[0] < 1e-16
    assert 0 < hopeless.expected_loss[1] < 1e-17


def test_an_arm_far_from_zero_keeps_the_digits_of_differences() -> None:
    near = _normals((0.0, 1e-3), (2.0**-10, 1e-3))
    far = _normals((2.0**40, 1e-3), (2.0**40 + 2.0**-10, 1e-3))
    assert far.p_best == pytest.approx(near.p_best, rel=1e-12)
    assert far.expected_loss == pytest.approx(near.expected_loss, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    arms=st.lists(
        st.tuples(st.floats(min_value=1e-3, max_value=1e6), st.floats(min_value=1e-3, max_value=1e6)),
        min_size=2,
        max_size=6,
    ),
    data=st.data(),
)
def test_relabelling_arms_relabels_the_result_and_probabilities_add_up(
    arms: list[tuple[float, float]], data: st.DataObject
) -> None:
    got = _betas(*arms)
    assert sum(got.p_best) == pytest.approx(1.0, abs=1e-8)
    assert min(got.expected_loss) >= 0
    means = [alpha / (alpha + beta) for alpha, beta in arms]
    # E[max] is the same seen from each arm.
    best = [mean + loss for mean, loss in zip(means, got.expected_loss, strict=True)]
    assert best == pytest.approx([best[0]] * len(arms), abs=1e-8)
    order = data.draw(st.permutations(range(len(arms))))
    again = _betas(*(arms[index] for index in order))
    assert again.p_best == pytest.approx([got.p_best[index] for index in order], rel=1e-7, abs=1e-9)
    assert again.expected_loss == pytest.approx([got.expected_loss[index] for index in order], rel=1e-7, abs=1e-9)


def test_arms_of_utterly_different_scales_are_compared() -> None:
    arms = LocationScale(
        centres=np.array([0.0, 1.0, 1e100]),
        spreads=np.array([1e-100, 1.0, 1e90]),
        dfs=np.array([2.0, math.inf, 5.0]),
        logit=False,
    )
    got = compare(arms)
    assert got.p_best == pytest.approx((0.0, 0.0, 1.0), abs=1e-12)
    assert got.expected_loss[:2] == pytest.approx((1e100, 1e100), rel=1e-6)


def test_one_arm_is_best() -> None:
    assert _betas((2, 3)) == Comparison(p_best=(1.0,), expected_loss=(0.0,))


def test_an_integral_that_does_not_settle_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="halvings"):
        integrate(lambda points: 1 / points[None, :], np.array([0.0, 1.0]))
