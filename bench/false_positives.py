"""How often the tests find an effect where there is none: both arms drawn from one mean, nominal 5 %, two-sided.

    .venv/bin/python -m bench.false_positives [--runs N] [--seed N] [--write]

Every run goes through ``analyze_metric``, as an experiment does. Prints a table, and exits 1 when the headline test
of an asked scenario finds something in less than 3 % or more than 6 % of the runs.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.stats.clusters import ClusterCells
from experiments.stats.frequentist import ArmSums, analyze_metric
from experiments.stats.results import MetricResult
from experiments.stats.sufficient import Moments

ALPHA = 0.05
RANGE = (0.03, 0.06)

type Sizes = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Units:
    """Normal outcomes of independent participants; ``sd`` of baseline and treatment."""

    name: str
    n: tuple[int, int]
    sd: tuple[float, float] = (1.0, 1.0)
    asked: bool = True

    def run(self, source: np.random.Generator) -> MetricResult:
        arms = [_sums(arm, source.normal(0.0, self.sd[arm - 1], self.n[arm - 1])) for arm in (1, 2)]
        return analyze_metric(arms=arms, baseline=1, alpha=ALPHA)


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Whole clusters in an arm; ``correlation`` is that of two outcomes of one cluster."""

    name: str
    n: tuple[int, int]
    sizes: Sizes
    correlation: float = 0.1
    asked: bool = True

    def run(self, source: np.random.Generator) -> MetricResult:
        rows, arms = [], []
        for arm in (1, 2):
            values = []
            for cluster, size in enumerate(self.sizes(source, self.n[arm - 1])):
                shared = source.normal(0.0, self.correlation**0.5)
                outcomes = shared + source.normal(0.0, (1 - self.correlation) ** 0.5, size)
                rows.append((arm, 1000 * arm + cluster, int(size), 0.0, float(outcomes.sum())))
                values.append(outcomes)
            arms.append(_sums(arm, np.concatenate(values)))
        return analyze_metric(arms=arms, baseline=1, alpha=ALPHA, clusters=ClusterCells.of(rows))


@dataclass(frozen=True, kw_only=True)
class MixedClusters:
    """Participants assigned one by one, so that every cluster has both arms."""

    name: str
    n: int
    sizes: Sizes
    correlation: float = 0.1
    asked: bool = False

    def run(self, source: np.random.Generator) -> MetricResult:
        rows, values = [], {1: [], 2: []}
        for cluster, size in enumerate(self.sizes(source, self.n)):
            shared = source.normal(0.0, self.correlation**0.5)
            outcomes = shared + source.normal(0.0, (1 - self.correlation) ** 0.5, size)
            treated = source.permutation(size) < size // 2
            for arm, part in ((1, outcomes[~treated]), (2, outcomes[treated])):
                rows.append((arm, cluster, len(part), 0.0, float(part.sum())))
                values[arm].append(part)
        arms = [_sums(arm, np.concatenate(values[arm])) for arm in (1, 2)]
        return analyze_metric(arms=arms, baseline=1, alpha=ALPHA, clusters=ClusterCells.of(rows))


def even(source: np.random.Generator, n: int) -> np.ndarray:
    return source.integers(10, 51, n)


def very_uneven(source: np.random.Generator, n: int) -> np.ndarray:
    return np.maximum(np.rint(20 * np.exp(0.8 * source.standard_normal(n))), 2).astype(int)


type Scenario = Units | Clusters | MixedClusters

SCENARIOS: tuple[Scenario, ...] = (
    Units(name="3 + 3 units", n=(3, 3)),
    Units(name="5 + 5 units", n=(5, 5)),
    Units(name="10 + 10 units", n=(10, 10)),
    Units(name="5 + 100 units", n=(5, 100)),
    Units(name="5 + 100 units, sd 3 and 1", n=(5, 100), sd=(3.0, 1.0)),
    Units(name="5 + 100 units, sd 1 and 3", n=(5, 100), sd=(1.0, 3.0)),
    Clusters(name="3 + 3 clusters of 10 to 50", n=(3, 3), sizes=even),
    Clusters(name="10 + 10 clusters of 10 to 50", n=(10, 10), sizes=even),
    Clusters(name="10 + 40 clusters of 10 to 50", n=(10, 40), sizes=even),
    Clusters(name="3 + 3 very unequal clusters", n=(3, 3), sizes=very_uneven, asked=False),
    Clusters(name="10 + 10 very unequal clusters", n=(10, 10), sizes=very_uneven, asked=False),
    Clusters(name="10 + 40 very unequal clusters", n=(10, 40), sizes=very_uneven, asked=False),
    MixedClusters(name="10 clusters, both arms in each", n=10, sizes=even),
)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Shares of runs in which each test was significant."""

    headline: float
    cr2: float
    robust_normal: float
    robust_t: float
    runs: int

    @property
    def in_range(self) -> bool:
        return RANGE[0] <= self.headline <= RANGE[1]


def rates(scenario: Scenario, *, runs: int, seed: int) -> Rates:
    source = np.random.default_rng(seed)
    found = np.array([list(_significant(scenario.run(source))) for _ in range(runs)], dtype=float).mean(axis=0)
    headline, cr2, normal, t = map(float, found)
    return Rates(headline=headline, cr2=cr2, robust_normal=normal, robust_t=t, runs=runs)


def _significant(metric: MetricResult) -> Iterator[bool]:
    effect = metric.arms[1].effect
    assert effect and effect.headline and effect.cr2
    for p_value in (effect.headline.p_value, effect.cr2.p_value, effect.robust.p_value_normal, effect.robust.p_value_t):
        assert p_value is not None
        yield p_value < ALPHA


def _sums(arm: int, values: np.ndarray) -> ArmSums:
    return ArmSums(arm=arm, n_assigned=len(values), moments=Moments.of(values.tolist()))


def table(found: dict[str, Rates], *, seed: int) -> str:
    asked = {scenario.name: scenario.asked for scenario in SCENARIOS}
    runs = next(iter(found.values())).runs
    error = (ALPHA * (1 - ALPHA) / runs) ** 0.5
    lines = [
        "# False positives at a nominal 5 %\n",
        f"{runs:,} runs each, seed {seed}; chance alone moves a rate by ± {2 * error:.1%} (two standard errors). The "
        "headline is Welch's test, of clusters CR2 with Satterthwaite's degrees of freedom. Asked: 3 to 6 %.\n",
        "| both arms drawn from one mean | headline | | CR2 | HC1 / CR1, t | HC1 / CR1, normal |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for name, each in found.items():
        verdict = ("met" if each.in_range else "**missed**") if asked[name] else "not asked"
        shown = [f"{rate:.1%}" for rate in (each.headline, each.cr2, each.robust_t, each.robust_normal)]
        lines.append(f"| {name} | {shown[0]} | {verdict} | " + " | ".join(shown[1:]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.false_positives", description=__doc__)
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write results/false_positives.md")
    options = parser.parse_args()
    found = {}
    for scenario in SCENARIOS:
        found[scenario.name] = rates(scenario, runs=options.runs, seed=options.seed)
        print(f"{scenario.name}: {found[scenario.name].headline:.2%}", file=sys.stderr, flush=True)
    text = table(found, seed=options.seed)
    print(text)
    if options.write:
        (Path(__file__).parent / "results" / "false_positives.md").write_text(text)
    sys.exit(0 if all(found[scenario.name].in_range for scenario in SCENARIOS if scenario.asked) else 1)


if __name__ == "__main__":
    main()
