"""Copies of nodes, for questions of the form "what if there were more of these"."""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec.structs import replace

from mooring.api.objects import Node


def copies_of(model: Node, count: int, taken: Container[str]) -> Iterator[Node]:
    """Yield nodes like the model, with names that are not taken."""
    made = number = 0
    while made < count:
        number += 1
        name = f"{model.name}-copy-{number}"
        if name not in taken:
            made += 1
            labels = {**model.metadata.labels, "kubernetes.io/hostname": name}
            metadata = replace(model.metadata, name=name, uid=f"what-if/{name}", labels=labels)
            yield replace(model, metadata=metadata)
