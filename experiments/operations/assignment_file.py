"""Reading a CSV file of assignments line by line: what is right becomes rows, what is wrong is told by its number."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from experiments.errors import InvalidInput
from experiments.operations.participants import problem_of_id

COLUMNS = ("participant_id", "arm", "cluster_id")
LINES_TOLD = 20
_LONGEST_LINE = 100_000


@dataclass(frozen=True, kw_only=True)
class BadLine:
    number: int
    problem: str


@dataclass(kw_only=True)
class BadLines:
    """The first of them, and how many there are."""

    first: list[BadLine] = field(default_factory=list)
    total: int = 0

    def add(self, number: int, problem: str) -> None:
        self.total += 1
        if len(self.first) < LINES_TOLD:
            self.first.append(BadLine(number=number, problem=problem))


class Row(NamedTuple):
    """A line that is right as far as it can be seen alone. ``arm`` is the arm's position.

    A tuple, since making a million frozen dataclasses takes a second.
    """

    number: int
    participant_id: str
    arm: int
    cluster_id: str | None


def rows_of(
    file: BinaryIO, *, arms: Mapping[str, int], ambiguous: frozenset[str], clustered: bool, bad: BadLines
) -> Iterator[Row]:
    """The rows of UTF-8 text with a header; line ends and a byte order mark are as they may be.

    ``arms`` gives the position by whatever names an arm; ``ambiguous`` texts name two. Raises ``InvalidInput`` when
    the header is wrong or the file cannot be read further: lines after a broken quote mean nothing.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(_bounded_lines(text), strict=True)
    try:
        try:
            header = next(reader, [])
            participant, arm, cluster = _places(header, clustered=clustered)
            for values in reader:
                if not values:
                    continue
                if len(values) != len(header):
                    bad.add(reader.line_num, f"has {len(values)} values, the header has {len(header)}")
                    continue
                participant_id = values[participant]
                cluster_id = values[cluster] if cluster is not None else ""
                position = arms.get(values[arm])
                problem = None
                if not (participant_id.isascii() and 0 < len(participant_id) < 256 and "\0" not in participant_id):
                    problem = _problem_of("participant_id", participant_id)
                if problem is None and position is None:
                    problem = _problem_of_arm(values[arm], ambiguous)
                if problem is None:
                    problem = _problem_of_cluster(cluster_id, clustered=clustered)
                if problem is not None or position is None:
                    bad.add(reader.line_num, problem or "")
                    continue
                yield Row(reader.line_num, participant_id, position, cluster_id or None)
        except csv.Error as error:
            # What was found before comes first: it may explain this.
            bad.add(reader.line_num, f"cannot be read as CSV: {error}; the rest was not looked at")
    finally:
        # The stream is the caller's.
        text.detach()


def names_of(arms: Sequence[tuple[str, int, str]]) -> tuple[dict[str, int], frozenset[str]]:
    """What may stand under ``arm``, from ids, positions and names: position by text, and texts that name two arms."""
    found: dict[str, int] = {}
    ambiguous = set()
    for id, position, name in arms:
        for text in (id, name, str(position)):
            if found.setdefault(text, position) != position:
                ambiguous.add(text)
    return {text: position for text, position in found.items() if text not in ambiguous}, frozenset(ambiguous)


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise csv.Error(f"a line is longer than {_LONGEST_LINE} characters")
        yield line


def _places(header: Sequence[str], *, clustered: bool) -> tuple[int, int, int | None]:
    wanted = COLUMNS if clustered else COLUMNS[:2]
    missing = [name for name in wanted if name not in header]
    strange = [name for name in header if name not in COLUMNS]
    twice = [name for name in COLUMNS if header.count(name) > 1]
    told = [
        *(f"the column {name} is missing" for name in missing),
        *(f"{_short(name)} is no column known here" for name in strange),
        *(f"the column {name} is there twice" for name in twice),
    ]
    if told:
        raise InvalidInput(
            f"line 1: {'; '.join(told)}; the header must be {','.join(wanted)}, in any order", field="header"
        )
    return header.index("participant_id"), header.index("arm"), header.index("cluster_id") if len(header) > 2 else None


def _problem_of(name: str, value: str) -> str | None:
    if any("\udc80" <= character <= "\udcff" for character in value):
        return f"{name} is not UTF-8"
    problem = problem_of_id(value)
    return f"{name} {problem}" if problem else None


def _problem_of_arm(value: str, ambiguous: frozenset[str]) -> str:
    if value in ambiguous:
        return f"arm {_short(value)} is the name of one arm and the position of another; use the id"
    return f"there is no arm {_short(value)}"


def _problem_of_cluster(value: str, *, clustered: bool) -> str | None:
    if clustered:
        return _problem_of("cluster_id", value)
    return "the experiment is not clustered, so cluster_id must be empty" if value else None


def _short(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:40]}…")
