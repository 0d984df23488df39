"""Write the golden SQL of all dialects anew: ``python -m tests.golden.regenerate``; then read the difference."""

from __future__ import annotations

from experiments.warehouse.dialects import Dialect
from tests.support.golden_queries import FOLDER, golden_text


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for dialect in Dialect:
        (FOLDER / f"{dialect.value}.sql").write_text(golden_text(dialect), encoding="utf-8")


if __name__ == "__main__":
    main()
