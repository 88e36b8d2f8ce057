"""Rules that many fields share. A rule yields causes: what is wrong with the value at a path."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mooring.sandbox.apiserver.errors import Cause, invalid_value, not_supported, required
from mooring.sandbox.apiserver.validation.names import percent, port_name, port_number

Causes = Iterator[Cause]
Text = Callable[[str], Sequence[str]]
"""A rule for names."""

NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


def text(path: str, value: str, rule: Text) -> Causes:
    for problem in rule(value):
        yield invalid_value(path, value, problem)


def required_text(path: str, value: str | None, rule: Text) -> Causes:
    if not value:
        yield required(path)
    else:
        yield from text(path, value, rule)


def nonnegative(path: str, value: int | None) -> Causes:
    if value is not None and value < 0:
        yield invalid_value(path, value, NEGATIVE)


def nonnegatives(path: str, tree: Mapping[str, Any], *names: str) -> Causes:
    """Check that several members are not negative."""
    for name in names:
        value = tree.get(name)
        if value is not None and value < 0:
            yield invalid_value(f"{path}.{name}", value, NEGATIVE)


def positive(path: str, value: int) -> Causes:
    if value <= 0:
        yield invalid_value(path, value, NOT_POSITIVE)


def one_of(path: str, value: str | None, supported: Sequence[str]) -> Causes:
    """Require one of the supported values."""
    if not value:
        yield required(path)
    elif value not in supported:
        yield not_supported(path, value, supported)


def optional_choice(path: str, value: str | None, supported: Sequence[str]) -> Causes:
    if value is not None and value not in supported:
        yield not_supported(path, value, supported)


def immutable(path: str, value: Any, old: Any) -> Causes:
    if value != old:
        yield invalid_value(path, value, IMMUTABLE)


def int_or_percent(path: str, value: int | str) -> Causes:
    if isinstance(value, str):
        for problem in percent(value):
            yield invalid_value(path, value, problem)
    else:
        yield from nonnegative(path, value)


def percent_of(value: int | str | None) -> int | None:
    """Return the number of a percentage, None for anything else. Only the last 18 digits count."""
    return int(value[:-1][-18:]) if isinstance(value, str) and not percent(value) else None


def amount(value: int | str | None) -> int:
    """Return a count or the number of a percentage; 0 for anything else."""
    if isinstance(value, int):
        return value
    return percent_of(value) or 0


def at_most_100_percent(path: str, value: int | str) -> Causes:
    if (percent_of(value) or 0) > 100:
        yield invalid_value(path, value, "must not be greater than 100%")


def port_or_name(path: str, value: int | str) -> Causes:
    """Validate a port by its number or by its name in the container."""
    for problem in port_name(value) if isinstance(value, str) else port_number(value):
        yield invalid_value(path, value, problem)


def ip_address(path: str, value: str) -> Causes:
    if _IPV4.fullmatch(value):  # nearly all of them, and much faster
        return
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        yield invalid_value(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        yield invalid_value(path, value, "must not be an IPv4-mapped IPv6 address")


def relative_path(path: str, value: str) -> Causes:
    """Validate a path below some directory."""
    if value.startswith("/"):
        yield invalid_value(path, value, "must be a relative path")
    yield from no_backsteps(path, value)


def no_backsteps(path: str, value: str) -> Causes:
    if ".." in value.split("/"):
        yield invalid_value(path, value, "must not contain '..'")


def file_mode(path: str, value: int | None) -> Causes:
    if value is not None and not 0 <= value <= 0o777:
        yield invalid_value(path, value, "must be a number between 0 and 0777 (octal), both inclusive")
