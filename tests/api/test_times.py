from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.times import canonical_time, format_time, go_duration, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2024-02-29T12:00:00Z", 1709208000.0),
        ("2024-02-29T12:00:00.123456Z", 1709208000.123456),
        ("2024-02-29T12:00:00.123456789Z", 1709208000.123456789),
        ("2024-02-29T14:30:00+02:30", 1709208000.0),
        ("1969-12-31T23:59:59.5Z", -0.5),
    ],
)
def test_parse_time(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["", "2024-02-29", "2024-02-30T00:00:00Z", "2024-02-29T12:00:00", "2024-W09-4T12:00:00Z", "now"],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=f'time "{text}"'):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "second", "micro"),
    [
        ("2026-02-03T04:05:06Z", "2026-02-03T04:05:06Z", "2026-02-03T04:05:06.000000Z"),
        ("2026-02-03T04:05:06.000007Z", "2026-02-03T04:05:06Z", "2026-02-03T04:05:06.000007Z"),
        ("2026-02-03T06:05:06.5+02:00", "2026-02-03T04:05:06Z", "2026-02-03T04:05:06.500000Z"),
        ("2026-02-03t04:05:06z", "2026-02-03T04:05:06Z", "2026-02-03T04:05:06.000000Z"),
    ],
)
def test_times_are_written_in_one_form(text: str, second: str, micro: str) -> None:
    assert canonical_time(text) == second
    assert canonical_time(text, micro=True) == micro


@pytest.mark.parametrize(
    "text", ["2026-02-30T04:05:06Z", "2026-02-03T04:05:61Z", "2026-02-03T04:05:06.00000xZ"]
)
def test_what_only_looks_like_a_time_has_no_form(text: str) -> None:
    for micro in (False, True):
        with pytest.raises(ValueError, match="time "):
            canonical_time(text, micro=micro)


@given(st.integers(0, 4_000_000_000_000_000))
def test_micro_times_come_back(micros: int) -> None:
    seconds = micros / 1_000_000
    assert parse_time(format_time(seconds, micro=True)) == pytest.approx(seconds, abs=2e-6)
    assert parse_time(format_time(seconds)) == seconds // 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (300, "5m0s"), (1.5, "1.5s"), (0.1, "100ms"), (3600, "1h0m0s"), (1e-9, "1ns"),
        (1.5e-6, "1.5µs"), (0.0025, "2.5ms"), (90061.25, "25h1m1.25s"), (-1, "-1s"), (-0.5, "-500ms"),
        (59.999999999, "59.999999999s"), (60, "1m0s"),
    ],
)  # fmt: skip
def test_go_duration(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


def test_times_of_year_one_have_four_digits_of_a_year() -> None:
    assert format_time(parse_time("0001-01-01T00:00:02Z"), micro=True) == "0001-01-01T00:00:02.000000Z"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0**63, "9999-12-31T23:59:59Z"), (-(2.0**63), "0001-01-01T00:00:00Z")]
)
def test_times_without_a_text_become_the_nearest_that_has_one(seconds: float, text: str) -> None:
    assert format_time(seconds) == text
    assert format_time(seconds, micro=True).startswith(text[:-1])
