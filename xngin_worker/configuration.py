"""What is wrong with the configuration, told to the person who has to put it right.

Every reader of settings collects sentences and raises one `ConfigurationError` with all of them, so
nobody has to start the program once per fault.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import NoReturn

EXIT_CODE = 2


class ConfigurationError(Exception):
    """Settings that cannot be used. `problems` holds one sentence per fault, none with a secret in it."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.report())

    def report(self) -> str:
        """The text to print: how many faults there are, then one line for each."""
        faults = "1 fault" if len(self.problems) == 1 else f"{len(self.problems)} faults"
        return "\n".join([f"The configuration has {faults}:", *(f"  - {problem}" for problem in self.problems)])


def did_you_mean(given: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`" (did you mean NAME?)"` for the nearest known name, or an empty text when none is near."""
    by_folded = {name.casefold(): name for name in known}
    folded = given.strip().casefold()
    nearest = difflib.get_close_matches(folded, by_folded, n=1, cutoff=cutoff)
    if not nearest and len(folded) > 2:
        # A shortening, like "prod", is farther from what it stands for than a slip of the pen is.
        nearest = [name for name in by_folded if name.startswith(folded)]
    return f" (did you mean {by_folded[nearest[0]]}?)" if nearest else ""


def report_and_exit(error: ConfigurationError) -> NoReturn:
    """Print the report and end the process with the exit code for a wrong configuration."""
    print(error.report(), file=sys.stderr)
    sys.exit(EXIT_CODE)
