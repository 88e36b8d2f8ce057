"""Quantities, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.quantity import (
    INT64_MAX,
    INT64_MIN,
    QuantityError,
    from_nano,
    milli_value,
    parse,
    to_milli,
    to_value,
    value,
)

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "milli"),
    [
        ("100m", 100), ("0.1", 100), ("1e-1", 100), ("100000u", 100), ("100n", 1), ("0.0001", 1), ("0", 0),
        ("1.5Gi", 1610612736000), ("1e3", 10**6), ("2E3", 2 * 10**6), ("2E", 2 * 10**21),
        ("129M", 129 * 10**9), ("3k", 3 * 10**6), (".5", 500), ("5.", 5000), ("+1", 1000), ("-1", -1000),
        ("-1500u", -1), (2, 2000), (0.5, 500), (1e22, INT64_MAX), ("1e+2", 10**5), ("0.5Ki", 512000),
        ("1e-999999999999", 1), ("0e999999999999", 0),
    ],
)  # fmt: skip
def test_notations(raw: str | int | float, milli: int) -> None:
    expected = min(milli, INT64_MAX)
    assert milli_value(parse(raw)) == to_milli(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        "", "12x", "m", ".", "-", "1 ", " 1", "1.1.M", "1+1.0M", "0.1mi", "aoeu", ".5i", "1i", "-3.01e-",
        "2e", "1e1.5", "1KI", "1ki", "٣", "1\n", "1_000", "9" * 600, float("nan"), float("inf"),
    ],
)  # fmt: skip
def test_what_is_no_quantity(raw: str | float) -> None:
    with pytest.raises(QuantityError, match="expected a number with an optional suffix such as m, k, M"):
        parse(raw)


def test_the_message_names_the_text() -> None:
    with pytest.raises(QuantityError) as caught:
        parse("12x")
    assert str(caught.value) == (
        'quantity "12x": expected a number with an optional suffix such as '
        "m, k, M, G, Ki, Mi, Gi or an exponent"
    )


digits = st.text("0123456789", max_size=22)


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=digits,
    fraction=st.none() | digits,
    suffix=st.sampled_from(sorted(SUFFIXES)) | st.integers(-30, 30).map(lambda n: f"e{n}"),
)
def test_parse_is_exact_to_the_nano(sign: str, whole: str, fraction: str | None, suffix: str) -> None:
    text = sign + whole + (f".{fraction}" if fraction is not None else "") + suffix
    if not whole and not fraction:
        with pytest.raises(QuantityError):
            parse(text)
        return
    scale = SUFFIXES[suffix] if suffix in SUFFIXES else Fraction(10) ** int(suffix[1:])
    exact = Fraction(int(whole + (fraction or "")), 10 ** len(fraction or "")) * scale
    if suffix.endswith("i"):
        exact = min(exact, Fraction(INT64_MAX))
    nano = math.ceil(exact * 10**9)
    assert parse(text) == (-nano if sign == "-" else nano)


@given(st.integers())
def test_conversions_round_up_within_int64(nano: int) -> None:
    for converted, unit in ((milli_value(nano), 10**6), (value(nano), 10**9)):
        assert converted == max(INT64_MIN, min(math.ceil(Fraction(nano, unit)), INT64_MAX))


@given(st.integers(0, 10**30))
def test_from_nano_parses_back(nano: int) -> None:
    assert parse(from_nano(nano)) == nano


@given(st.floats(0, 1e15))
def test_floats_read_as_they_print(number: float) -> None:
    assert parse(number) == parse(repr(number)) == math.ceil(Fraction(repr(number)) * 10**9)
    assert to_value(number) == value(parse(number))
