"""How often a confidence sequence excludes the truth at any of 200 looks, beside the plain interval looked at as often.

    .venv/bin/python -m bench.confidence_sequences [--runs N] [--seed N] [--write]

The runs of a scenario are advanced together, look by look; at the last look one of them is compared with what
``analyze_metric`` says. Prints a table, and exits 1 when a sequence of an asked scenario fails more often than alpha.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.stats.confidence_sequence import MINIMUM_PER_ARM, TUNED_AT, boundary
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.reference import normal_quantile
from experiments.stats.sufficient import Moments

ALPHA = 0.05
LOOKS = 200

type Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def normal(source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return source.standard_normal(shape)


def exponential(source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return source.standard_exponential(shape) - 1


def student_3(source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return source.standard_t(3, shape)


def lognormal(source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.exp(source.standard_normal(shape)) - math.exp(0.5)


def very_skewed(source: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.exp(1.5 * source.standard_normal(shape)) - math.exp(1.125)


def rare(share: float) -> Draw:
    return lambda source, shape: (source.random(shape) < share) - share


def scaled(draw: Draw, sd: float) -> Draw:
    return lambda source, shape: sd * draw(source, shape)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What the arms' outcomes are, less their mean, and how many each arm gets between two looks."""

    name: str
    draws: tuple[Draw, Draw]
    asked: bool = True

    def at_each_look(self, growth: tuple[int, int]) -> str:
        return f"{growth[0]} + {growth[1]}"


GROWTHS = ((25, 25), (1, 1), (5, 45))
SCENARIOS = (
    Scenario(name="normal", draws=(normal, normal)),
    Scenario(name="normal, sd 3 and 1", draws=(scaled(normal, 3.0), normal)),
    Scenario(name="normal, sd 1 and 3", draws=(normal, scaled(normal, 3.0))),
    Scenario(name="yes or no, 50 %", draws=(rare(0.5), rare(0.5))),
    Scenario(name="yes or no, 2 %", draws=(rare(0.02), rare(0.02))),
    Scenario(name="exponential", draws=(exponential, exponential)),
    Scenario(name="exponential and nearly constant", draws=(exponential, scaled(normal, 0.01))),
    Scenario(name="Student t, 3 degrees of freedom", draws=(student_3, student_3)),
    Scenario(name="log-normal, skewness 6", draws=(lognormal, lognormal)),
    Scenario(name="log-normal, skewness 33", draws=(very_skewed, very_skewed)),
    Scenario(name="log-normal (6) and nearly constant", draws=(lognormal, scaled(normal, 0.01)), asked=False),
)


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Shares of runs in which the truth was excluded at one look or more; ``width`` at the last look, in standard
    errors."""

    sequence: float
    plain: float
    width: float


def failures(scenario: Scenario, growth: tuple[int, int], *, runs: int, seed: int, looks: int = LOOKS) -> Failures:
    """The first look is as soon as both arms have the smallest number of outcomes that a sequence begins with."""
    source = np.random.default_rng(seed)
    first = -(-MINIMUM_PER_ARM // min(growth))
    n = [0, 0]
    total, squares = np.zeros((2, runs)), np.zeros((2, runs))
    sequence, plain = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    z = normal_quantile(ALPHA)
    width = 0.0
    for look in range(looks):
        for arm in (0, 1):
            size = growth[arm] * (1 if look else first)
            values = scenario.draws[arm](source, (runs, size))
            total[arm] += values.sum(axis=1)
            squares[arm] += (values * values).sum(axis=1)
            n[arm] += size
        centred = np.maximum(squares - total**2 / np.array(n)[:, None], 0.0)
        effect = total[1] / n[1] - total[0] / n[0]
        welch = centred[0] / (n[0] - 1) / n[0] + centred[1] / (n[1] - 1) / n[1]
        pooled = centred.sum(axis=0) / (sum(n) - 2) * (1 / n[0] + 1 / n[1])
        width = boundary(sum(n), alpha=ALPHA, tuned_at=TUNED_AT)
        half = width * np.sqrt(np.maximum(welch, pooled))
        varies = welch > 0
        sequence |= varies & (np.abs(effect) > half)
        plain |= varies & (np.abs(effect) > z * np.sqrt(welch))
    _compare(n, total[:, 0], centred[:, 0], effect[0], half[0])
    return Failures(sequence=float(sequence.mean()), plain=float(plain.mean()), width=width)


def _compare(n: list[int], total: np.ndarray, centred: np.ndarray, effect: float, half: float) -> None:
    """The vectorised interval of the first run is the product's."""
    arms = [
        ArmSums(
            arm=arm,
            n_assigned=n[arm],
            moments=Moments.from_centred(
                n=n[arm], centre=float(total[arm] / n[arm]), sum_dev=0.0, sum_sq_dev=float(centred[arm])
            ),
        )
        for arm in (0, 1)
    ]
    got = analyze_metric(arms=arms, baseline=0, alpha=ALPHA).arms[1].effect
    assert got and got.confidence_sequence.ci
    assert np.allclose(got.confidence_sequence.ci, (effect - half, effect + half), rtol=1e-6, atol=0)


def table(found: dict[tuple[str, str], tuple[Failures, bool]], *, runs: int, seed: int) -> str:
    error = (ALPHA * (1 - ALPHA) / runs) ** 0.5
    lines = [
        "# Confidence sequences over 200 looks\n",
        f"{runs:,} runs each, seed {seed}, alpha 5 %, beginning at {MINIMUM_PER_ARM} outcomes in the smaller arm, "
        f"tuned at {TUNED_AT:,}; chance alone moves a rate of 5 % by ± {2 * error:.1%} (two standard errors). Shares "
        "of runs that excluded the truth at one look or more; the plain interval (normal, Welch's error) is looked at "
        "as often.\n",
        "| outcomes | new ones at each look | sequence | | plain interval | width at the end |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for (name, growth), (each, asked) in found.items():
        verdict = ("met" if asked else "holds") if each.sequence <= ALPHA else ("**missed**" if asked else "a limit")
        lines.append(
            f"| {name} | {growth} | {each.sequence:.1%} | {verdict} | {each.plain:.1%} | {each.width:.2f} errors |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.confidence_sequences", description=__doc__)
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write results/confidence_sequences.md")
    options = parser.parse_args()
    found = {}
    for scenario in SCENARIOS:
        for growth in GROWTHS:
            each = failures(scenario, growth, runs=options.runs, seed=options.seed)
            found[scenario.name, scenario.at_each_look(growth)] = (each, scenario.asked)
            print(f"{scenario.name}, {growth}: {each.sequence:.2%}", file=sys.stderr, flush=True)
    text = table(found, runs=options.runs, seed=options.seed)
    print(text)
    if options.write:
        (Path(__file__).parent / "results" / "confidence_sequences.md").write_text(text)
    sys.exit(1 if any(asked and each.sequence > ALPHA for each, asked in found.values()) else 0)


if __name__ == "__main__":
    main()
