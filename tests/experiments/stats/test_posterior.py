"""Conjugate posteriors: exact sums, what they refuse, and what no order, batching, shift or scale changes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.stats.exact import exact, inverse, square_root
from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.noise import Noise, NoiseSource, estimate_noise, noise_of
from experiments.stats.posterior import beta_posterior, gaussian_posterior
from experiments.stats.priors import BetaPrior, NormalPrior

FLOATS = st.floats(min_value=-1e6, max_value=1e6)
ROWS = st.lists(st.tuples(st.tuples(FLOATS, FLOATS), FLOATS), min_size=1, max_size=12)
FEW = settings(max_examples=25, deadline=None)


@FEW
@given(rows=ROWS, data=st.data())
def test_posterior_has_the_same_bits_in_any_order_and_batching(
    rows: list[tuple[tuple[float, float], float]], data: st.DataObject
) -> None:
    prior = NormalPrior(mean=0.25, sd=3.0, dimensions=2)
    whole = gaussian_posterior(prior, GaussianSums.of(rows, dimensions=2), noise=Noise.given(0.7))
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(min_value=0, max_value=len(rows)))
    parts = GaussianSums.of(shuffled[:cut], dimensions=2).merge(GaussianSums.of(shuffled[cut:], dimensions=2))
    assert gaussian_posterior(prior, parts, noise=Noise.given(0.7)) == whole


@FEW
@given(outcomes=st.lists(FLOATS, min_size=2, max_size=12), shift=FLOATS, scale=st.floats(min_value=1e-3, max_value=1e3))
def test_posterior_moves_with_shift_and_scale(outcomes: list[float], shift: float, scale: float) -> None:
    plain = gaussian_posterior(
        NormalPrior(mean=1.0, sd=3.0), GaussianSums.of([((1.0,), y) for y in outcomes]), noise=Noise.given(0.7)
    )
    moved = gaussian_posterior(
        NormalPrior(mean=1.0 * scale + shift, sd=3.0 * scale),
        GaussianSums.of([((1.0,), y * scale + shift) for y in outcomes]),
        noise=Noise.given(0.7 * scale),
    )
    assert moved.mu[0] == pytest.approx(plain.mu[0] * scale + shift, rel=1e-9, abs=1e-6)
    assert moved.covariance[0][0] == pytest.approx(plain.covariance[0][0] * scale**2, rel=1e-9)


def test_sums_from_decimals_equal_those_from_doubles() -> None:
    rows = [((1.0, 0.1), 0.3), ((1.0, 0.7), -1.25), ((1.0, 1e-7), 1e7)]
    xs = [[Decimal(repr(value)) for value in x] for x, _ in rows]
    ys = [Decimal(repr(y)) for _, y in rows]
    from_numeric = GaussianSums.with_contexts(
        n=3,
        sum_xx=[sum((x[i] * x[j] for x in xs), Decimal(0)) for i, j in ((0, 0), (0, 1), (1, 1))],
        sum_xy=[sum((x[i] * y for x, y in zip(xs, ys, strict=True)), Decimal(0)) for i in (0, 1)],
        sum_yy=sum((y * y for y in ys), Decimal(0)),
    )
    assert from_numeric == GaussianSums.of(rows, dimensions=2)
    without = GaussianSums.without_contexts(n=3, sum_y=sum(ys, Decimal(0)), sum_yy=sum((y * y for y in ys), Decimal(0)))
    assert without == GaussianSums.of([((1.0,), y) for _, y in rows])


@FEW
@given(rows=st.lists(st.tuples(FLOATS, FLOATS), min_size=4, max_size=10, unique=True))
def test_residual_and_rank_agree_with_least_squares(rows: list[tuple[float, float]]) -> None:
    x = np.array([(1.0, x) for x, _ in rows]) / [1, 1e6]
    y = np.array([y for _, y in rows])
    residual, rank = GaussianSums.of(zip(x.tolist(), y.tolist(), strict=True), dimensions=2).residual()
    if len({value for value, _ in rows}) == 1:
        assert rank == 1
        return
    assert rank == 2
    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    assert float(residual) <= float(np.sum((y - x @ coefficients) ** 2)) * (1 + 1e-9) + 1e-6


def test_collinear_contexts_are_seen_exactly_and_cost_no_degree_of_freedom() -> None:
    x = [0.1, 0.2, 0.3, 0.7]
    y = [1.0, 2.0, 4.0, 8.0]
    twice = GaussianSums.of([((value, 3 * value), outcome) for value, outcome in zip(x, y, strict=True)], dimensions=2)
    # Three times 0.1 is a rounded double of its own: collinear are the same digits only.
    same = GaussianSums.of([((value, value), outcome) for value, outcome in zip(x, y, strict=True)], dimensions=2)
    once = GaussianSums.of([((value,), outcome) for value, outcome in zip(x, y, strict=True)])
    assert twice.residual()[1] == 2
    assert same.residual() == once.residual()


def test_noise_is_estimated_far_from_zero() -> None:
    sums = GaussianSums.of([((1.0,), 1e12 + value) for value in (0.1, 0.2, 0.3, 0.4)])
    outcomes = [Fraction(repr(1e12 + value)) for value in (0.1, 0.2, 0.3, 0.4)]
    mean = sum(outcomes, Fraction(0)) / 4
    expected = float(sum(((y - mean) ** 2 for y in outcomes), Fraction(0)) / 3) ** 0.5
    assert estimate_noise([sums]).sd == pytest.approx(expected, rel=1e-14)


def test_given_noise_wins_over_an_estimate() -> None:
    sums = GaussianSums.of([((1.0,), y) for y in (1.0, 5.0, 9.0, 2.0)])
    assert noise_of(2.5, [sums]) == Noise(sd=2.5, source=NoiseSource.GIVEN)
    assert noise_of(None, [sums]).source is NoiseSource.ESTIMATED


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ([], "0 degrees of freedom"),
        ([[1.0], [2.0]], "0 degrees of freedom"),
        ([[1.0, 2.0]], "1 degrees of freedom"),
        ([[3.0, 3.0, 3.0], [4.0, 4.0]], "do not vary"),
    ],
)
def test_without_an_estimate_the_posterior_is_the_prior_and_says_why(arms: list[list[float]], words: str) -> None:
    sums = [GaussianSums.of([((1.0,), y) for y in arm]) for arm in arms]
    noise = estimate_noise(sums)
    assert noise.sd is None
    assert noise.source is NoiseSource.NOT_ESTIMABLE
    assert noise.reason is not None and words in noise.reason
    prior = NormalPrior(mean=4.0, sd=2.0)
    posterior = gaussian_posterior(prior, sums[0] if sums else GaussianSums.empty(), noise=noise)
    assert (posterior.mu, posterior.covariance) == ((4.0,), ((4.0,),))
    assert posterior.reason == noise.reason
    assert posterior.n == (len(arms[0]) if arms else 0)


def test_noise_beyond_the_range_of_doubles_has_a_reason() -> None:
    sums = GaussianSums.without_contexts(n=9, sum_y=0, sum_yy=Fraction(10) ** 700)
    noise = estimate_noise([sums])
    assert noise.sd is None
    assert noise.reason is not None and "range of double" in noise.reason
    assert estimate_noise([GaussianSums.without_contexts(n=9, sum_y=0, sum_yy=Fraction(10) ** 500)]).sd is not None


def test_square_roots_beyond_doubles_are_found() -> None:
    assert square_root(Fraction(10) ** 600) == pytest.approx(1e300)
    assert square_root(Fraction(1, 10**600)) == pytest.approx(1e-300)
    assert square_root(Fraction(2)) == 2**0.5
    assert square_root(Fraction(0)) == 0.0


def test_inverse_of_an_ill_conditioned_matrix_is_exact() -> None:
    hilbert = [[Fraction(1, i + j + 1) for j in range(9)] for i in range(9)]
    inverted = inverse(hilbert)
    identity = [
        [sum((hilbert[i][k] * inverted[k][j] for k in range(9)), Fraction(0)) for j in range(9)] for i in range(9)
    ]
    assert identity == [[Fraction(int(i == j)) for j in range(9)] for i in range(9)]
    with pytest.raises(ZeroDivisionError):
        inverse([[Fraction(0)]])


def test_what_cannot_be_added_up_is_refused() -> None:
    for value in (float("nan"), float("inf"), Decimal("NaN")):
        with pytest.raises(ValueError, match="NaN and infinity"):
            exact(value)
    with pytest.raises(ValueError, match="3 entries"):
        GaussianSums.with_contexts(n=1, sum_xx=[1, 2], sum_xy=[1, 2], sum_yy=1)
    with pytest.raises(ValueError, match="2 entries"):
        GaussianSums.of([((1.0,), 1.0)], dimensions=2)
    with pytest.raises(ValueError, match="negative"):
        GaussianSums.without_contexts(n=-1, sum_y=0, sum_yy=0)
    with pytest.raises(ValueError, match="coefficients"):
        gaussian_posterior(NormalPrior(mean=0.0, sd=1.0), GaussianSums.empty(2), noise=Noise.given(1.0))
    with pytest.raises(ValueError, match="failures"):
        beta_posterior(BetaPrior(alpha=1.0, beta=1.0), successes=0, failures=-1)
    with pytest.raises(ValueError, match="noise_sd"):
        Noise.given(0.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_priors_refuse_what_is_no_prior(bad: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        BetaPrior(alpha=bad, beta=1.0)
    with pytest.raises(ValueError, match="beta"):
        BetaPrior(alpha=1.0, beta=bad)
    with pytest.raises(ValueError, match="sd"):
        NormalPrior(mean=0.0, sd=bad)
    with pytest.raises(ValueError, match="mean"):
        NormalPrior(mean=float("nan"), sd=1.0)
    with pytest.raises(ValueError, match="dimensions"):
        NormalPrior(mean=0.0, sd=1.0, dimensions=0)
