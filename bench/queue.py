"""The product beside other queues on PostgreSQL and beside a bare loop. README.md says how to run and read it."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import report, systems
from bench.measures import Round, Sizes
from bench.report import Results, Value
from bench.server import BenchServer, started
from bench.system import System

MEASURES: dict[str, Callable[[Round], Sequence[Value]]] = {
    "drain": lambda turn: [turn.drain()],
    "drain2": lambda turn: [turn.drain(workers=2)],
    "full": lambda turn: [turn.drain_full()],
    "sleeps": lambda turn: [turn.sleeps()],
    "enqueue": lambda turn: [turn.enqueue()],
    "latency": lambda turn: turn.latencies(),
}


def main() -> None:
    options = _options()
    names = options.only.split(",") if options.only else list(systems.NAMES)
    measures = options.measure.split(",") if options.measure else list(MEASURES)
    if unknown := (set(names) - set(systems.NAMES)) | (set(measures) - set(MEASURES)):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join([*systems.NAMES, *MEASURES])}")
    sizes = _sizes(quick=options.quick, slots=options.slots)
    rounds = 1 if options.quick else options.rounds
    with started() as server:
        facts = server.facts()
        chosen = [systems.load(name) for name in names]
        results = _run(server, chosen, measures, sizes, rounds)
    text = report.markdown(results, chosen, sizes, rounds=rounds, facts=facts)
    print(text)
    if options.write:
        folder = Path(__file__).parent / "results"
        folder.mkdir(exist_ok=True)
        (folder / "queue.md").write_text(text)


def _run(server: BenchServer, chosen: list[System], measures: list[str], sizes: Sizes, rounds: int) -> Results:
    results: defaultdict[str, defaultdict[str, list[Sequence[Value]]]] = defaultdict(lambda: defaultdict(list))
    turns = [
        Round(
            system=system,
            server=server,
            sizes=sizes,
            database=f"bench_{index}",
            full_database=f"bench_full_{index}",
        )
        for index, system in enumerate(chosen)
    ]
    for turn in turns:
        turn.prepare(full="full" in measures)
    for number in range(rounds):
        for measure in measures:
            # Another one begins in each round, so that a machine that slows down or warms up wrongs nobody.
            for turn in turns[number % len(turns) :] + turns[: number % len(turns)]:
                values = MEASURES[measure](turn)
                results[measure][turn.system.name].append(values)
                print(f"round {number + 1} {measure} {turn.system.name}: {report.brief(values)}", file=sys.stderr)
    for turn in turns:
        turn.drop()
    return results


def _sizes(*, quick: bool, slots: int) -> Sizes:
    if quick:
        return Sizes(
            drained=1000,
            finished_before=10_000,
            sleeps=200,
            sleep_concurrency=50,
            enqueued=2000,
            latencies=5,
            slots=slots,
        )
    return Sizes(
        drained=20_000,
        finished_before=1_000_000,
        sleeps=2000,
        sleep_concurrency=50,
        enqueued=100_000,
        latencies=70,
        slots=slots,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.queue", description=__doc__)
    parser.add_argument("--only", metavar="SYSTEM,...", help=f"of {', '.join(systems.NAMES)}")
    parser.add_argument("--measure", metavar="NAME,...", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument(
        "--slots", type=int, default=50, help="the product's slots, and everyone's batch (50, as for the 20 ms tasks)"
    )
    parser.add_argument("--quick", action="store_true", help="small numbers and one round: does it run?")
    parser.add_argument("--write", action="store_true", help="write the report to bench/results/queue.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
