"""The table, the ratios, and what was asked of them."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median, quantiles

from bench.measures import Sizes
from bench.system import System

type Value = float | tuple[float, float]
type Results = Mapping[str, Mapping[str, Sequence[Sequence[Value]]]]

_TITLES = {
    "drain": "drain, 1 process (tasks/s)",
    "drain2": "drain, 2 processes (tasks/s)",
    "full": "drain beside finished tasks (tasks/s)",
    "sleeps": "20 ms tasks, concurrency 50 (tasks/s)",
    "enqueue": "bulk enqueue (tasks/s)",
}
_LATENCIES = {
    "p50 from INSERT sent (ms)": (0, 0.5),
    "p95 from INSERT sent (ms)": (0, 0.95),
    "p50 from its commit (ms)": (1, 0.5),
    "p95 from its commit (ms)": (1, 0.95),
}


@dataclass(frozen=True, kw_only=True)
class Target:
    wording: str
    ratio: float | None
    bound: float
    at_most: bool = False

    @property
    def line(self) -> str:
        sign = "≤" if self.at_most else "≥"
        if self.ratio is None:
            return f"| {self.wording} | {sign} {self.bound:g} | | not measured |"
        met = self.ratio <= self.bound if self.at_most else self.ratio >= self.bound
        return f"| {self.wording} | {sign} {self.bound:g} | {self.ratio:.2f} | {'met' if met else '**missed**'} |"


def markdown(results: Results, chosen: list[System], sizes: Sizes, *, rounds: int, facts: Mapping[str, str]) -> str:
    names = [system.name for system in chosen]
    rows = {title: {name: _median(results, key, name) for name in names} for key, title in _TITLES.items()}
    rows |= {
        f"latency {title}": {name: _latency(results, name, *which) for name in names}
        for title, which in _LATENCIES.items()
    }
    parts = [
        "# The queue beside others\n",
        f"{datetime.now(UTC):%Y-%m-%d}, median of {rounds} interleaved round(s), {sizes.slots} slots. In brackets: the "
        "range over the rounds, and the product's value divided by this one's.\n",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
    ]
    keys = [*_TITLES, *(["latency"] * len(_LATENCIES))]
    for key, (title, values) in zip(keys, rows.items(), strict=True):
        if any(value is not None for value in values.values()):
            cells = [_cell(values, name, _range(results, key, name)) for name in names]
            parts.append(f"| {title} | " + " | ".join(cells) + " |")
    parts += ["", "| asked | | found | |", "|---|---|---:|---|", *(t.line for t in _targets(results, rows)), ""]
    parts += [f"- **{system.name}** {_version(system.name)}: {system.setup}." for system in chosen]
    parts += [
        "",
        f"{sizes.drained} tasks drained, {sizes.finished_before} finished ones beside them, {sizes.sleeps} "
        f"tasks of 20 ms, {sizes.enqueued} enqueued at once, {sizes.latencies * rounds} latencies. Given fewer, "
        "since they are slow: " + _shares(chosen) + ".",
        "",
        _machine(facts),
        "",
    ]
    return "\n".join(parts)


def brief(values: Sequence[Value]) -> str:
    sent = [value[0] for value in values if isinstance(value, tuple)]
    return f"{median(sent) * 1000:.2f} ms" if sent else f"{values[0]:.0f}/s"


def _targets(results: Results, rows: Mapping[str, Mapping[str, float | None]]) -> list[Target]:
    drain = rows[_TITLES["drain"]]
    latency = rows["latency p50 from INSERT sent (ms)"]
    committed = rows["latency p50 from its commit (ms)"]
    sleeps, enqueued = rows[_TITLES["sleeps"]], rows[_TITLES["enqueue"]]
    peers = [speed for name, speed in enqueued.items() if name not in ("xngin", "floor") and speed]
    ours = drain.get("xngin")
    return [
        Target(wording="drain ÷ pgqueuer's", ratio=_ratio(ours, drain.get("pgqueuer")), bound=1.2),
        Target(wording="drain ÷ django-tasks-db's", ratio=_ratio(ours, drain.get("django-tasks-db")), bound=40),
        Target(wording="drain ÷ the floor's", ratio=_ratio(ours, drain.get("floor")), bound=0.5),
        Target(
            wording="idle latency p50 ÷ the floor's, from INSERT sent",
            ratio=_ratio(latency.get("xngin"), latency.get("floor")),
            bound=2,
            at_most=True,
        ),
        Target(
            wording="idle latency p50 ÷ the floor's, from its commit",
            ratio=_ratio(committed.get("xngin"), committed.get("floor")),
            bound=2,
            at_most=True,
        ),
        Target(
            wording="drain beside finished tasks ÷ drain of an empty table",
            ratio=_ratio(rows[_TITLES["full"]].get("xngin"), ours),
            bound=0.85,
        ),
        Target(
            wording="time of the 20 ms tasks ÷ the floor's",
            ratio=_ratio(sleeps.get("floor"), sleeps.get("xngin")),
            bound=1.2,
            at_most=True,
        ),
        Target(
            wording="bulk enqueue ÷ the best peer's",
            ratio=_ratio(enqueued.get("xngin"), max(peers, default=None)),
            bound=2,
        ),
    ]


def _ratio(ours: float | None, other: float | None) -> float | None:
    return ours / other if ours and other else None


def _median(results: Results, key: str, name: str) -> float | None:
    speeds = _speeds(results, key, name)
    return median(speeds) if speeds else None


def _speeds(results: Results, key: str, name: str) -> list[float]:
    """One for each round; latencies are none."""
    first = [values[0] for values in results.get(key, {}).get(name, [])]
    return [value for value in first if not isinstance(value, tuple)]


def _latency(results: Results, name: str, which: int, quantile: float) -> float | None:
    measured = [value for values in results.get("latency", {}).get(name, []) for value in values]
    numbers = [value[which] * 1000 for value in measured if isinstance(value, tuple)]
    if not numbers:
        return None
    return median(numbers) if quantile == 0.5 else quantiles(numbers, n=100)[round(quantile * 100) - 1]


def _range(results: Results, key: str, name: str) -> str:
    speeds = _speeds(results, key, name)
    return f"{min(speeds):.0f}-{max(speeds):.0f}" if len(speeds) > 1 else ""


def _cell(values: Mapping[str, float | None], name: str, range_: str) -> str:
    value = values[name]
    if value is None:
        return ""
    ratio = _ratio(values.get("xngin"), value)
    notes = [range_, f"ratio {ratio:.2f}" if ratio and name != "xngin" else ""]
    shown = f"{value:.0f}" if value >= 100 else f"{value:.2f}"
    inside = "; ".join(note for note in notes if note)
    return f"{shown} ({inside})" if inside else shown


def _shares(chosen: list[System]) -> str:
    shares = [
        f"{s.name} ({s.share:.0%} drained, {s.share_of_sleeps:.0%} of 20 ms, {s.share_of_enqueued:.0%} enqueued)"
        for s in chosen
        if min(s.share, s.share_of_sleeps, s.share_of_enqueued) < 1
    ]
    return ", ".join(shares) or "nobody"


def _version(name: str) -> str:
    try:
        return "" if name in ("floor", "xngin") else version(name)
    except PackageNotFoundError:
        return ""


def _machine(facts: Mapping[str, str]) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    load = os.getloadavg()[1]
    return (
        f"Machine: {os.cpu_count()} cores ({model}), {memory:.0f} GiB, Python {platform.python_version()}, {shown}. "
        f"Load over the last five minutes: {load:.1f}. The bench, the workers and the server share the cores."
    )
