import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.plugins.args import Duration


@pytest.mark.parametrize(
    ("text", "printed", "seconds"),
    [
        ("15s", "15s", 15),
        ("5m", "5m0s", 300),
        ("1m30s", "1m30s", 90),
        ("100ms", "100ms", 0.1),
        ("1.5s", "1.5s", 1.5),
        ("1.5h", "1h30m0s", 5400),
        ("24h", "24h0m0s", 86400),
        ("2us", "2µs", 2e-6),
        ("2μs", "2µs", 2e-6),
        ("7ns", "7ns", 7e-9),
        (".5s", "500ms", 0.5),
        ("0", "0s", 0),
        ("-1m", "-1m0s", -60),
        ("+1s", "1s", 1),
    ],
)
def test_durations_read_and_print_as_in_go(text: str, printed: str, seconds: float) -> None:
    duration = Duration.parse(text)
    assert str(duration) == printed
    assert duration.seconds == seconds


@pytest.mark.parametrize("text", ["", "15", "s", "1x", "1s ", "1 s", "--1s", ".s", "1d", "٣s", "9999999h"])
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        Duration.parse(text)


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_printing_loses_nothing(nanoseconds: int) -> None:
    duration = Duration(nanoseconds)
    assert Duration.parse(str(duration)) == duration


@given(st.integers(), st.integers())
def test_durations_order_as_their_lengths(a: int, b: int) -> None:
    assert (Duration(a) <= Duration(b)) == (a <= b)
