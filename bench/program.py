"""One process of one system: `python -m bench.program SYSTEM create|work|enqueue ...`. The bench starts these."""

import logging
import os
import sys

from bench import systems


def main(name: str, word: str, *arguments: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    system = systems.load(name)
    url = os.environ["BENCH_URL"]
    match word:
        case "create":
            system.create(url)
        case "work":
            system.work(url, int(arguments[0]), arguments[1])
        case "enqueue":
            print(system.enqueue(url, int(arguments[0]), arguments[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
