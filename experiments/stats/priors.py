"""What is believed of an arm before any outcome, as the experiment's author gave it."""

from __future__ import annotations

from dataclasses import dataclass

_LARGEST = 1e100


@dataclass(frozen=True, kw_only=True)
class BetaPrior:
    """Of a success rate: as if ``alpha`` successes and ``beta`` failures had been seen, not counting the uniform 1 + 1.

    Raises ``ValueError`` when one lies outside 1e-6 to 1e12: no experiment moves, or tells from 0 or 1, what does.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            _require_within(name, getattr(self, name), 1e-6, 1e12)


@dataclass(frozen=True, kw_only=True)
class NormalPrior:
    """Of ``dimensions`` independent coefficients, each with this mean and **standard deviation** (not variance).

    Without contexts there is one coefficient, the mean outcome (for binary rewards its log-odds). With contexts there
    is one for each entry of the context vector; an intercept is there only if a context is constant.
    Raises ``ValueError`` for no dimension, an sd outside 1e-100 to 1e100, or a mean beyond 1e100, whose squares would
    leave the range of doubles.
    """

    mean: float
    sd: float
    dimensions: int = 1

    def __post_init__(self) -> None:
        if not abs(self.mean) <= _LARGEST:
            raise ValueError(f"mean must be a number within ±{_LARGEST:g}, not {self.mean}")
        _require_within("sd", self.sd, 1 / _LARGEST, _LARGEST)
        if self.dimensions < 1:
            raise ValueError(f"dimensions must be at least 1, not {self.dimensions}")


def _require_within(name: str, value: float, smallest: float, largest: float) -> None:
    if not smallest <= value <= largest:
        raise ValueError(f"{name} must be a positive number between {smallest:g} and {largest:g}, not {value}")
