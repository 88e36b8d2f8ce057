"""The rules of names, labels and the like, each with the words in which Kubernetes states it.

A rule gives the problems of a text, none where it follows the rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from mooring.api.selectors import is_label_value, is_qualified_name

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

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
QUALIFIED_NAME: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def dns_subdomain(text: str) -> Sequence[str]:
    """Most names of objects."""
    problems = [] if len(text) <= 253 else [_too_long(253)]
    return problems if _DNS_SUBDOMAIN.fullmatch(text) else [*problems, SUBDOMAIN]


def dns_label(text: str) -> Sequence[str]:
    """Names of namespaces and services, and of containers."""
    problems = [] if len(text) <= 63 else [_too_long(63)]
    return problems if _DNS_LABEL.fullmatch(text) else [*problems, LABEL]


def path_segment(text: str) -> Sequence[str]:
    """What any name must be, whatever its kind."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in text]


@lru_cache(maxsize=4096)
def qualified_name(text: str) -> Sequence[str]:
    """Keys of labels and annotations, names of resources and finalizers."""
    return () if is_qualified_name(text) else (QUALIFIED_NAME,)


@lru_cache(maxsize=4096)
def label_value(text: str) -> Sequence[str]:
    if is_label_value(text):
        return ()
    return (_too_long(63),) if len(text) > 63 else (LABEL_VALUE,)
