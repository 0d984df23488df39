"""What is true of the demo's customers: the numbers that its experiments have to find. The only place they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Metric:
    """``means`` are by arm, the baseline first."""

    name: str
    means: Sequence[float]


PRICES_ARMS = ("today's prices", "5 % off", "free delivery")
PRICES = (
    Metric(name="revenue", means=(40.0, 41.5, 43.0)),
    Metric(name="orders", means=(1.2, 1.25, 1.4)),
    Metric(name="returned", means=(0.10, 0.10, 0.07)),
)

SIGN_UP_ARMS = ("long form", "short form")
SIGN_UP = (
    Metric(name="basket", means=(30.0, 32.5)),
    Metric(name="visits", means=(4.0, 4.2)),
    Metric(name="newsletter", means=(0.30, 0.36)),
)
BASKET_SD_OF_SHOPS = 3.0
BASKET_SD_WITHIN_SHOPS = 12.0

BUTTON_RATES: Mapping[str, float] = {"grey": 0.08, "green": 0.10, "orange": 0.12, "violet": 0.16}

BANNER_MEANS: Mapping[str, float] = {"summer": 20.0, "autumn": 22.0, "winter": 25.0}
BANNER_NOISE_SD = 12.0

# By arm: the weights of the contexts in the log-odds of a purchase.
OFFER_CONTEXTS = ("constant", "age in decades", "returning")
OFFER_WEIGHTS: Mapping[str, tuple[float, float, float]] = {
    "voucher": (-1.4, -0.2, 0.2),
    "gift": (-2.2, 0.15, 0.3),
    "points": (-2.0, -0.1, 1.2),
}


def chance_of_purchase(arm: str, context: Sequence[float]) -> float:
    """Of an offer's arm at one customer's context."""
    odds = sum(weight * value for weight, value in zip(OFFER_WEIGHTS[arm], context, strict=True))
    return 1 / (1 + math.exp(-odds))
