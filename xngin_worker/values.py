"""From the text of a variable or an option to a value.

Each reader raises `ValueError` with the end of a sentence that says what is accepted, for instance
`must be a whole number`; the caller puts the name in front. Nothing here knows which setting it reads.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

from xngin_worker.configuration import did_you_mean

type Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})
_SECONDS_PER_UNIT = {"": 1, "ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>[a-z]*)", re.ASCII)


def read_flag(text: str) -> bool:
    """`yes` or `no`, also written as 1/0, true/false and on/off in any case."""
    folded = text.strip().casefold()
    if folded in _YES:
        return True
    if folded in _NO:
        return False
    raise ValueError(f"must be yes or no (also 1/0, true/false, on/off), not {text!r}")


def read_count(text: str, *, lowest: int, highest: int) -> int:
    """A whole number within the bounds, both included."""
    # int() would also take "1_000" and digits of other scripts, which are slips more often than wishes.
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"must be a whole number from {lowest} to {highest}, not {text!r}")
    number = int(text)
    if not lowest <= number <= highest:
        raise ValueError(f"must be a whole number from {lowest} to {highest}, not {number}")
    return number


def read_duration(text: str, *, lowest: float, highest: float) -> float:
    """Seconds from `5`, `0.5`, `90s`, `15min` or `3h`, within the bounds, both included."""
    bounds = f"from {show_duration(lowest)} to {show_duration(highest)}"
    accepted = f"must be a time {bounds}, like 5, 0.5, 90s, 15min or 3h"
    match = _DURATION.fullmatch(text.strip().casefold())
    if match is None:
        raise ValueError(f"{accepted}, not {text!r}")
    if match["unit"] not in _SECONDS_PER_UNIT:
        units = [unit for unit in _SECONDS_PER_UNIT if unit]
        raise ValueError(f"{accepted}, not {text!r}{did_you_mean(match['unit'], units)}")
    seconds = float(match["number"]) * _SECONDS_PER_UNIT[match["unit"]]
    if not lowest <= seconds <= highest:
        raise ValueError(f"{accepted}, not {text!r}")
    return seconds


def show_duration(seconds: float) -> str:
    """The shortest way to write a duration that `read_duration` reads back: `15min`, `90s`, `0.5s`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def read_choice(text: str, choices: tuple[str, ...]) -> str:
    """One of the choices, in any case."""
    folded = text.strip().casefold()
    for choice in choices:
        if choice.casefold() == folded:
            return choice
    raise ValueError(f"must be one of {', '.join(choices)}, not {text!r}{did_you_mean(text, choices)}")


def read_list(text: str) -> tuple[str, ...]:
    """The parts between commas, without blanks around them, empty ones and repetitions left out."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks in CIDR notation between commas; a single address is the network of itself."""
    networks: list[Network] = []
    for part in read_list(text):
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            raise ValueError(
                f"must be networks like 10.0.0.0/8 or fd00::/8 (no host bits) between commas, not {part!r}"
            ) from None
    return tuple(networks)


def read_file(text: str) -> Path:
    """A file that exists and may be read, as an absolute path."""
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise ValueError(f"must name a file that exists, not {text!r}")
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"names the file {text!r}, which cannot be read: {error.strerror}") from None


def read_folder(text: str) -> Path:
    """A folder that exists, as an absolute path."""
    path = Path(text).expanduser().absolute()
    if not path.is_dir():
        raise ValueError(f"must name a folder that exists, not {text!r}")
    return path
