"""From text to value: durations, counts, choices and networks."""

from __future__ import annotations

import pytest

from xngin_worker.values import (
    read_choice,
    read_count,
    read_duration,
    read_flag,
    read_list,
    read_networks,
    show_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("0.5", 0.5),
        (".5", 0.5),
        ("90s", 90),
        ("250ms", 0.25),
        ("15min", 900),
        ("15 MIN", 900),
        ("2m", 120),
        ("3h", 10800),
        ("1.5h", 5400),
        ("1d", 86400),
    ],
)
def test_durations_are_seconds_or_have_a_unit(text: str, seconds: float) -> None:
    assert read_duration(text, lowest=0, highest=86400) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "5 apples", "1e3", "nan", "inf", "5,5", "\u0665", "1h30min", "9" * 400, "11"]
)
def test_what_is_no_duration_within_bounds_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a time from 1s to 10s, like 5, .* not "):
        read_duration(text, lowest=1, highest=10)


def test_an_unknown_unit_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"did you mean min\?"):
        read_duration("5mins", lowest=0, highest=3600)


@pytest.mark.parametrize("seconds", [0, 0.25, 1, 59, 60, 90, 110, 900, 3600, 5400, 10800, 86400, 604800])
def test_durations_are_shown_as_they_are_read(seconds: float) -> None:
    assert read_duration(show_duration(seconds), lowest=0, highest=1e6) == seconds


@pytest.mark.parametrize("text", ["", "5.0", "1_000", "\u0665", "0x10", "-1", "1001", "9" * 5000])
def test_what_is_no_count_within_bounds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number from 0 to 1000, not "):
        read_count(text, lowest=0, highest=1000)


def test_the_bounds_of_a_count_are_accepted() -> None:
    assert (read_count("0", lowest=0, highest=9), read_count(" 9 ", lowest=0, highest=9)) == (0, 9)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("True", True), ("yes", True), ("ON", True), ("0", False), ("off", False)]
)
def test_flags_have_several_spellings(text: str, value: bool) -> None:
    assert read_flag(text) is value


def test_a_choice_is_found_in_any_case() -> None:
    assert read_choice(" warning", ("INFO", "WARNING")) == "WARNING"


def test_lists_lose_blanks_and_repetitions_but_keep_their_order() -> None:
    assert read_list(" b, a,,b ,") == ("b", "a")


@pytest.mark.parametrize("text", ["10.0.0.1/8", "example.com", "10.0.0.0/33", "10.0.0.0/8;fd00::/8"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be networks"):
        read_networks(text)
