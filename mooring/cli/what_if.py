"""Changes to the objects of manifests: more nodes like one that exists, and pods that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from mooring.api.copies import copies_of
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod

MOST_ADDED = 5000


def with_nodes(objects: Sequence[KubeObject], additions: Iterable[str]) -> list[KubeObject]:
    """Add copies of nodes, each given as NAME or NAME=COUNT. Raises UsageError."""
    nodes = {obj.name: obj for obj in objects if isinstance(obj, Node)}
    added: list[KubeObject] = []
    for text in additions:
        name, separator, number = text.partition("=")
        if name not in nodes:
            raise click.UsageError(f'--add-node {text}: no node "{name}" in the manifests')
        count = int(number) if number.isdecimal() and len(number) < 9 else 0
        if separator and not 0 < count <= MOST_ADDED:
            raise click.UsageError(f"--add-node {text}: expected NAME=COUNT, with a count up to {MOST_ADDED}")
        copies = list(copies_of(nodes[name], count if separator else 1, nodes))
        nodes |= {copy.name: copy for copy in copies}
        added += copies
    return [*objects, *added]


def without_pods(objects: Sequence[KubeObject], names: Iterable[str]) -> list[KubeObject]:
    """Remove pods, each given as NAME or NAMESPACE/NAME. Raises UsageError."""
    removed: set[str] = set()
    for name in names:
        pods = {obj.key for obj in objects if isinstance(obj, Pod) and name in (obj.key, obj.name)}
        if not pods:
            raise click.UsageError(f"--without {name}: no such pod in the manifests")
        removed |= pods
    return [obj for obj in objects if not (isinstance(obj, Pod) and obj.key in removed)]
