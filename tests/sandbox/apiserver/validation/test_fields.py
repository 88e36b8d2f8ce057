"""Rules that many fields share."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.sandbox.apiserver.validation.fields import ip_address

NUMBERS = st.integers(0, 300).map(str) | st.sampled_from(["", "00", "01", "+1", " 1", "1\n", "٣"])


@given(st.lists(NUMBERS, min_size=3, max_size=5).map(".".join) | st.ip_addresses(v=6).map(str))
@example("10.0.0.1\n")
def test_an_address_is_what_python_takes_for_one(address: str) -> None:
    try:
        found = ipaddress.ip_address(address)
        good = not (isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped)
    except ValueError:
        good = False
    assert (not list(ip_address("status.podIPs[0]", address))) == good


@pytest.mark.parametrize("address", ["10.0.0.256", "010.0.0.1", "::ffff:10.0.0.1"])
def test_odd_addresses_are_refused(address: str) -> None:
    assert [cause.field for cause in ip_address("status.podIP", address)] == ["status.podIP"]
