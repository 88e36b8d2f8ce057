"""Classes that are marked as the default of their kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.sandbox.apiserver.objects import Tree


def newest_default(*annotations: str) -> Callable[[Iterable[Tree]], str | None]:
    """Return a function that names the newest class that one of the annotations marks as the default; among
    classes of the same age, the first by name."""

    def find(classes: Iterable[Tree]) -> str | None:
        defaults = [
            (tree["metadata"]["creationTimestamp"], tree["metadata"]["name"])
            for tree in classes
            if any((tree["metadata"].get("annotations") or {}).get(key) == "true" for key in annotations)
        ]
        newest = max((created for created, _ in defaults), default=None)
        return min((name for created, name in defaults if created == newest), default=None)

    return find
