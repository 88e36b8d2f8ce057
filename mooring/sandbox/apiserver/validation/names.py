"""Rules for names, labels and the like, with Kubernetes' messages.

A rule returns the problems of a text, none if it is valid.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from mooring.api.selector_text import LABEL_VALUE, QUALIFIED_NAME
from mooring.api.selectors import is_label_value, is_qualified_name

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_PORT_NAME = re.compile(r"[-a-z0-9]+", re.ASCII)
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)

SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_FORM: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_KEY: Final = (
    f"a valid label key {_QUALIFIED_FORM} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
CONFIG_KEY: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)
HEADER: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
    "for validation is '[-A-Za-z0-9]+')"
)
_DNS_1035_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
DNS_1035_LABEL: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
ENV_NAME: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)


def dns_subdomain(text: str) -> Sequence[str]:
    """Most names of objects."""
    problems = [] if len(text) <= 253 else ["must be no more than 253 characters"]
    return problems if _DNS_SUBDOMAIN.fullmatch(text) else [*problems, SUBDOMAIN]


@lru_cache(maxsize=4096)
def dns_label(text: str) -> Sequence[str]:
    """Names of namespaces and services, and of containers."""
    problems = [] if len(text) <= 63 else ["must be no more than 63 characters"]
    if _DNS_LABEL.fullmatch(text):
        return problems
    return [*problems, "must not contain dots" if _DNS_SUBDOMAIN.fullmatch(text) else LABEL]


def dns_1035_label(text: str) -> Sequence[str]:
    """Names that begin with a letter: of versions, and of custom kinds."""
    problems = [] if len(text) <= 63 else ["must be no more than 63 characters"]
    return problems if _DNS_1035_LABEL.fullmatch(text) else [*problems, DNS_1035_LABEL]


def path_segment(text: str) -> Sequence[str]:
    """Names of any kind."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in text]


@lru_cache(maxsize=4096)
def qualified_name(text: str) -> Sequence[str]:
    """Keys of labels and annotations, names of resources and finalizers."""
    if is_qualified_name(text):
        return ()
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (LABEL_KEY,)
    problems = []
    if slash:
        problems = list(_prefix_problems(prefix)) if prefix else [_empty("prefix")]
    if not name:
        problems.append(_empty("name"))
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    return (*problems, *(() if _QUALIFIED.fullmatch(name) else (QUALIFIED_NAME,)))


def _prefix_problems(prefix: str) -> Iterator[str]:
    for why in dns_subdomain(prefix):
        yield f"prefix part {why}".replace("253 characters", "253 bytes")


def _empty(part: str) -> str:
    return f"{part} part must be non-empty"


@lru_cache(maxsize=4096)
def label_value(text: str) -> Sequence[str]:
    if is_label_value(text):
        return ()
    problems = ["must be no more than 63 bytes"] if len(text) > 63 else []
    return (*problems, *(() if _QUALIFIED.fullmatch(text) else (LABEL_VALUE,)))


def port_name(text: str) -> Sequence[str]:
    """Names of ports, in containers, probes and services."""
    problems = [] if len(text) <= 15 else ["must be no more than 15 characters"]
    if not _PORT_NAME.fullmatch(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= letter <= "z" for letter in text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number(number: int) -> Sequence[str]:
    return () if 1 <= number <= 65535 else (between(1, 65535),)


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def env_name(text: str) -> Sequence[str]:
    """Names of environment variables, by the relaxed rule."""
    return () if all(" " <= letter <= "~" and letter != "=" for letter in text) else (ENV_NAME,)


def config_key(text: str) -> Sequence[str]:
    """Keys of config maps and secrets, which become file names."""
    problems = [] if len(text) <= 253 else ["must be no more than 253 characters"]
    if not _CONFIG_KEY.fullmatch(text):
        problems.append(CONFIG_KEY)
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def header_name(text: str) -> Sequence[str]:
    return () if _HEADER.fullmatch(text) else (HEADER,)


def percent(text: str) -> Sequence[str]:
    return () if _PERCENT.fullmatch(text) else (PERCENT,)


def decimal_integer(text: str) -> Sequence[str]:
    if not text:
        return ("must be non-empty",)
    return () if _DECIMAL.fullmatch(text) else ("must be a valid decimal integer in canonical form",)


def ip_address(text: str) -> Sequence[str]:
    """An IP address, in its shortest form."""
    try:
        address = ipaddress.ip_address("" if "%" in text else text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if str(address) == text else [f'must be in canonical form ("{address}")']
