"""Choice of arms: Thompson shares, top-two from five arms on, no preference by position, and its exact fall-back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from experiments.stats.gaussian_sums import GaussianSums
from experiments.stats.laplace import ContextCount, logistic_posterior
from experiments.stats.noise import Noise, estimate_noise
from experiments.stats.posterior import BetaPosterior, NormalPosterior, Posterior, gaussian_posterior
from experiments.stats.predictions import latent_at
from experiments.stats.priors import NormalPrior
from experiments.stats.sampling import choose_arm
from experiments.stats.standing import standing

CONSTANT = (1.0,)


def _rate(alpha: float, beta: float) -> BetaPosterior:
    return BetaPosterior(alpha=alpha, beta=beta, n=0)


def _normal(mean: float, sd: float, noise: Noise | None = None) -> NormalPosterior:
    return gaussian_posterior(NormalPrior(mean=mean, sd=sd), GaussianSums.empty(), noise=noise or Noise.given(1.0))


def _shares(posteriors: Sequence[Posterior], *, draws: int = 4000, x: tuple[float, ...] = CONSTANT) -> np.ndarray:
    rng = np.random.default_rng(6)
    counts = Counter(choose_arm(posteriors, x, rng) for _ in range(draws))
    return np.array([counts[index] / draws for index in range(len(posteriors))])


@pytest.mark.parametrize(
    "posteriors",
    [
        [_rate(3, 5), _rate(4, 4), _rate(1, 1)],
        [_normal(0.0, 1.0), _normal(0.5, 2.0)],
        [
            logistic_posterior(NormalPrior(mean=0.0, sd=1.0), [ContextCount(x=CONSTANT, successes=n, failures=3)])
            for n in (1, 4)
        ],
    ],
    ids=["beta", "normal", "logistic"],
)
def test_fewer_than_five_arms_are_drawn_as_often_as_they_are_best(posteriors: list[Posterior]) -> None:
    assert _shares(posteriors) == pytest.approx(standing(posteriors, CONSTANT).p_best, abs=0.04)


def test_five_arms_are_drawn_by_top_two_with_nine_tenths_for_the_leader() -> None:
    posteriors: list[Posterior] = [_rate(8, 5), _rate(7, 5), _rate(5, 5), _rate(4, 5), _rate(3, 5)]
    p = np.array(standing(posteriors, CONSTANT).p_best)
    challenger = np.array(
        [sum(p[leader] * p[arm] / (1 - p[leader]) for leader in range(5) if leader != arm) for arm in range(5)]
    )
    assert _shares(posteriors) == pytest.approx(0.9 * p + 0.1 * challenger, abs=0.035)
    assert _shares([_rate(1, 1e9)] * 4 + [_rate(1e9, 1)], draws=2000)[4] == pytest.approx(0.9, abs=0.03)


def test_challenger_of_an_arm_that_all_but_always_wins_follows_the_exact_probabilities() -> None:
    hopeless: list[Posterior] = [_rate(1, 40), _rate(1, 40), _rate(2, 40), _rate(1, 45)]
    posteriors: list[Posterior] = [_rate(400, 1), *hopeless]
    p = np.array(standing(posteriors, CONSTANT).p_best)
    assert 0 < p[3] < 1e-30
    shares = _shares(posteriors, draws=1500)
    challengers = p[1:] / np.sum(p[1:])
    assert shares[1:] == pytest.approx(0.1 * challengers, abs=0.03)
    assert np.argmax(shares[1:]) == np.argmax(challengers)


def test_challengers_that_nothing_tells_apart_have_equal_chances() -> None:
    shares = _shares([_normal(0.0, 1e-9)] * 4 + [_normal(1e9, 1e-9)], draws=1500)
    assert shares[4] == pytest.approx(0.9, abs=0.03)
    assert shares[:4] == pytest.approx([0.025] * 4, abs=0.024)


@pytest.mark.parametrize("x", [(0.0,), (1.0,)])
def test_equal_samples_prefer_no_arm_by_its_position(x: tuple[float, ...]) -> None:
    # At a context of zeros all predictions are 0; rates this close to 1 are sampled as 1.
    arms: list[Posterior] = [_normal(0.0, 1.0)] * 4 if x == (0.0,) else [_rate(1e12, 1e-6)] * 4
    assert _shares(arms, x=x) == pytest.approx([0.25] * 4, abs=0.04)


def test_same_random_source_gives_the_same_arm_and_context_decides() -> None:
    first = gaussian_posterior(
        NormalPrior(mean=0.0, sd=1.0, dimensions=2),
        GaussianSums.of([((1.0, 1.0), 9.0)] * 50, dimensions=2),
        noise=Noise.given(0.1),
    )
    second = gaussian_posterior(
        NormalPrior(mean=0.0, sd=0.01, dimensions=2), GaussianSums.empty(2), noise=Noise.given(0.1)
    )
    rng = np.random.default_rng
    assert {choose_arm([first, second], (1.0, 1.0), rng(seed)) for seed in range(20)} == {0}
    assert {choose_arm([first, second], (-1.0, -1.0), rng(seed)) for seed in range(20)} == {1}
    arms: list[Posterior] = [_rate(1, 1)] * 6
    assert [choose_arm(arms, CONSTANT, rng(3)) for _ in range(3)] == [choose_arm(arms, CONSTANT, rng(3))] * 3


def test_estimated_noise_is_sampled_with_its_heavier_tails() -> None:
    sums = GaussianSums.of([((1.0,), y) for y in (-1.0, 0.0, 1.0)])
    uncertain = gaussian_posterior(NormalPrior(mean=0.0, sd=1e3), sums, noise=estimate_noise([sums]))
    latent = latent_at(uncertain, CONSTANT)
    rival = _normal(4 * latent.sd, 1e-9)
    expected = standing([uncertain, rival], CONSTANT).p_best[0]
    assert expected > 0.02  # a normal distribution would give 0.00003
    assert _shares([uncertain, rival])[0] == pytest.approx(expected, abs=0.012)


def test_what_cannot_be_chosen_from_is_refused() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match="at least one arm"):
        choose_arm([], CONSTANT, rng)
    with pytest.raises(ValueError, match="mixed"):
        choose_arm([_rate(1, 1), _normal(0.0, 1.0)], CONSTANT, rng)
    with pytest.raises(ValueError, match="1 entries"):
        choose_arm([_normal(0.0, 1.0)] * 2, (1.0, 2.0), rng)
