"""Formats of strings and numbers in schemas."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain


class Format(NamedTuple):
    name: str
    fits: Callable[[str], bool] | None = None
    """The check of strings; numbers are checked by their range."""


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return fits


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matches(
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}[0-9a-f]{{3}}-?{fourth}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    )


def _is_byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return bool(text)


def _is_uri(text: str) -> bool:
    """Whether a text is a request URI: absolute, or a path from the root."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(text) and not any(letter <= " " for letter in text) and bool(parts.scheme or text[0] == "/")


_DATE_TIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if match is None or not _is_date(match[1]):
        return False
    return int(match[2]) < 24 and int(match[3]) < 60 and int(match[4]) < 60


def _is_date(text: str) -> bool:
    return len(text) == 10 and _parses(date.fromisoformat)(text)


_DURATION: Final = _matches(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0")
_WORDY_DURATION: Final = re.compile(
    r"\d+\s*(?:ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)", re.IGNORECASE
)


def _is_duration(text: str) -> bool:
    return _DURATION(text) or _WORDY_DURATION.search(text) is not None


def _is_hostname(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return len(text) <= 255 and all(
        re.fullmatch(r"[^\W_](?:[^\W_-]|-(?!$)){0,62}", label) is not None for label in labels
    )


_STRINGS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"(?i)[0-9a-f]{24}"),
    "byte": _is_byte,
    "cidr": lambda text: "/" in text and _parses(lambda one: ipaddress.ip_network(one, strict=False))(text),
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _matches(r"(?:[^<>]*<)?[^\s@<>]+@[^\s@<>]+>?"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "k8slongname": lambda text: not dns_subdomain(text),
    "k8sshortname": lambda text: not dns_label(text),
    "mac": _matches(
        r"(?i)[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2}){4,6}|(?:[0-9a-f]{4}\.){2,3}[0-9a-f]{4}"
    ),
    "password": lambda text: True,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _uuid("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _uuid("3", "[0-9a-f]"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
_UNCHECKED: Final = frozenset({"creditcard", "isbn", "isbn10", "isbn13", "rgbcolor"})
"""Formats that Kubernetes supports and that are not checked here."""
_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def format_of(name: str, type: str) -> Format | None:
    """Return a format by its name; None for formats that do not apply to the type, which are not checked."""
    if type in _NUMBERS:
        return Format(name) if name in _NUMBERS[type] else None
    if type not in ("", "string"):
        return None
    fits = _STRINGS.get(name.replace("-", ""))
    return None if fits is None else Format(name, fits)


def is_known(name: str, type: str) -> bool:
    """Whether Kubernetes supports a format; definitions that use others get a warning."""
    return format_of(name, type) is not None or name.replace("-", "") in _UNCHECKED
