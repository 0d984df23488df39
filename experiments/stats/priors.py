"""What is believed of an arm before any outcome, as the experiment's author gave it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BetaPrior:
    """Of a success rate: as if ``alpha`` successes and ``beta`` failures had been seen, not counting the uniform 1 + 1.

    Raises ``ValueError`` when one is not a positive finite number.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            _require_positive(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class NormalPrior:
    """Of ``dimensions`` independent coefficients, each with this mean and **standard deviation** (not variance).

    Without contexts there is one coefficient, the mean outcome (for binary rewards its log-odds). With contexts there
    is one for each entry of the context vector; an intercept is there only if a context is constant.
    Raises ``ValueError`` for a mean that is not finite, an sd that is not positive, or no dimension.
    """

    mean: float
    sd: float
    dimensions: int = 1

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean):
            raise ValueError(f"mean must be a finite number, not {self.mean}")
        _require_positive("sd", self.sd)
        if self.dimensions < 1:
            raise ValueError(f"dimensions must be at least 1, not {self.dimensions}")


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number, not {value}")
