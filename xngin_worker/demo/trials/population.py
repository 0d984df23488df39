"""The demo's customers, made from a seed: who they are, which arm they got, and what they did. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xngin_worker.demo.trials.truth import (
    BANNER_MEANS,
    BANNER_NOISE_SD,
    BASKET_SD_OF_SHOPS,
    BASKET_SD_WITHIN_SHOPS,
    BUTTON_RATES,
    OFFER_WEIGHTS,
    PRICES,
    SIGN_UP,
    chance_of_purchase,
)

SEED = 20_261
CUSTOMERS = 20_000
SHOPS = 200
CLICKS = 4_000
# In the assignments and not, or not yet, in the warehouse.
UNKNOWN_CUSTOMERS = 100
_SHARE_WITHOUT_REVENUE = 0.02
_SHARE_WITHOUT_PURCHASE_YET = 0.03

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Customers:
    """One entry a customer, for the two A/B experiments. ``revenue`` is NaN where nothing is known."""

    prices_arm: Ints
    revenue: Floats
    orders: Ints
    returned: npt.NDArray[np.bool_]
    shop: Ints
    sign_up_arm: Ints
    basket: Floats
    visits: Ints
    newsletter: npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One entry a participant of a bandit. ``outcome`` is NaN where it is not known yet; ``contexts`` may be empty."""

    arm: Ints
    hours_ago: Floats
    outcome: Floats
    contexts: Floats


def customers(rng: np.random.Generator) -> Customers:
    """All ``CUSTOMERS``. Their shops got one arm each; prices were shown to each customer alone."""
    n = CUSTOMERS
    prices_arm = rng.permutation(np.arange(n) % len(PRICES[0].means))
    shop = np.arange(n) % SHOPS
    sign_up_arm = rng.permutation(np.arange(SHOPS) % len(SIGN_UP[0].means))[shop]
    revenue, orders, returned = (np.array(metric.means)[prices_arm] for metric in PRICES)
    basket, visits, newsletter = (np.array(metric.means)[sign_up_arm] for metric in SIGN_UP)
    # Half of the revenue's mean is what everybody spends; the rest is skewed, as revenue is.
    spent = np.round(revenue - 20 + rng.gamma(2.0, 10.0, n), 2)
    spent[rng.random(n) < _SHARE_WITHOUT_REVENUE] = np.nan
    of_shop = rng.normal(0.0, BASKET_SD_OF_SHOPS, SHOPS)[shop]
    return Customers(
        prices_arm=prices_arm,
        revenue=spent,
        orders=rng.poisson(orders),
        returned=rng.random(n) < returned,
        shop=shop,
        sign_up_arm=sign_up_arm,
        basket=np.round(basket + of_shop + rng.normal(0.0, BASKET_SD_WITHIN_SHOPS, n), 2),
        visits=rng.poisson(visits),
        newsletter=rng.random(n) < newsletter,
    )


def buttons(rng: np.random.Generator) -> Drawn:
    """Clicks are reported, and nobody tells of those that never come: only ones are known."""
    arm = rng.integers(len(BUTTON_RATES), size=CLICKS)
    clicked = rng.random(CLICKS) < np.array(list(BUTTON_RATES.values()))[arm]
    return _drawn(rng, arm, np.where(clicked, 1.0, np.nan), np.empty((CLICKS, 0)))


def banner(rng: np.random.Generator) -> Drawn:
    """What was bought stands in the warehouse, apart from the few purchases that are not through yet."""
    arm = rng.integers(len(BANNER_MEANS), size=CLICKS)
    spent = np.round(rng.normal(np.array(list(BANNER_MEANS.values()))[arm], BANNER_NOISE_SD), 2)
    spent[rng.random(CLICKS) < _SHARE_WITHOUT_PURCHASE_YET] = np.nan
    return _drawn(rng, arm, spent, np.empty((CLICKS, 0)))


def offers(rng: np.random.Generator) -> Drawn:
    """Purchases are reported, at contexts that repeat: ages in half decades, customers old and new."""
    arm = rng.integers(len(OFFER_WEIGHTS), size=CLICKS)
    contexts = np.array([context(rng) for _ in range(CLICKS)])
    names = list(OFFER_WEIGHTS)
    chances = [chance_of_purchase(names[one], at) for one, at in zip(arm, contexts.tolist(), strict=True)]
    bought = rng.random(CLICKS) < np.array(chances)
    return _drawn(rng, arm, np.where(bought, 1.0, np.nan), contexts)


def context(rng: np.random.Generator) -> tuple[float, float, float]:
    """One customer as the offers see them: the constant, the age in decades, and whether they have come before."""
    return 1.0, float(rng.integers(4, 17)) / 2, float(rng.random() < 0.4)


def _drawn(rng: np.random.Generator, arm: Ints, outcome: Floats, contexts: Floats) -> Drawn:
    return Drawn(arm=arm, hours_ago=rng.uniform(26.0, 72.0, len(arm)), outcome=outcome, contexts=contexts)
