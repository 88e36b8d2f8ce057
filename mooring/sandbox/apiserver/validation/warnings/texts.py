"""Warnings about single values: node labels, quantities and addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.quantity import NANO, parse
from mooring.sandbox.apiserver.objects import Tree

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def selected_labels(path: str, labels: Mapping[str, str] | None, *, by_key: bool = True) -> Iterator[str]:
    """Warn about deprecated labels in a node selector."""
    for key in labels or ():
        if key in _NODE_LABELS:
            yield f"{path}[{key}]: {_NODE_LABELS[key]}" if by_key else f"{path}: {_NODE_LABELS[key]}"


def label_key(path: str, key: str) -> Iterator[str]:
    """Warn if a key, such as that of a topology, is a deprecated label of nodes."""
    if key in _NODE_LABELS:
        yield f"{path}: {key} is {_NODE_LABELS[key]}"


def selected_keys(path: str, term: Tree) -> Iterator[str]:
    """Warn about deprecated labels in a term of a node affinity."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        yield from label_key(f"{path}.matchExpressions[{index}].key", expression["key"])


def whole_bytes(path: str, quantities: Mapping[str, str] | None, *names: str) -> Iterator[str]:
    """Warn about sizes with a fraction of a byte."""
    for name in names:
        quantity = (quantities or {}).get(name)
        if quantity is not None and parse(quantity) % NANO:
            yield f'{path}[{name}]: fractional byte value "{quantity}" is invalid, must be an integer'


def address(path: str, text: str) -> Iterator[str]:
    """Warn about an IP address that is not in its canonical form."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:  # leading zeros, which older versions took
        parts = [part.lstrip("0") or "0" for part in text.split(".")]
        yield f'{path}: non-standard IP address "{text}" is invalid: use "{".".join(parts)}"'
        return
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            yield f'{path}: non-standard IP address "{text}" is invalid: use "{ip.ipv4_mapped}"'
        elif str(ip) != text:
            yield f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{ip}")'
