"""A snapshot of a cluster: what the scheduler reads of it, in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.decode import from_dict
from mooring.api.errors import MalformedObject
from mooring.api.kinds import PODS, PRIORITY_CLASSES, WATCHED, ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.client.api_errors import ApiError
from mooring.client.informers import NOT_TERMINAL
from mooring.client.port import Cluster
from mooring.simulate.capture.scrubbing import Scrubber, scrub_all

PAGE = 500
KINDS: tuple[ApiResource[Any], ...] = (PRIORITY_CLASSES, *WATCHED)
"""What is read: the kinds that scheduling depends on. Secrets and ConfigMaps are not among them, and of pods
only the fields that the scheduler reads are kept: no commands, no environment."""
MANIFEST = "snapshot.json"


class Snapshot(msgspec.Struct, rename="camel"):
    """What snapshot.json holds."""

    version: int
    taken: str
    scrubbed: bool
    counts: dict[str, int]


def tree_of(obj: KubeObject, resource: ApiResource[Any]) -> Tree:
    """An object as a manifest; items of lists lack their kind."""
    tree: Tree = msgspec.to_builtins(obj)
    return {**tree, "apiVersion": resource.api_version, "kind": resource.kind}


async def take_snapshot(
    cluster: Cluster, seen: Callable[[str, int], None] = lambda name, count: None
) -> dict[ApiResource[Any], list[KubeObject]]:
    """List every kind in pages. A kind that is not served or may not be listed has no objects, except for
    nodes and pods. Raises ApiError and Unreachable."""
    objects: dict[ApiResource[Any], list[KubeObject]] = {}
    for resource in KINDS:
        try:
            objects[resource] = await _list(cluster, resource, seen)
        except ApiError as error:
            if resource.plural in ("nodes", "pods") or error.code not in (403, 404):
                raise
            seen(f"{resource.name}: {error.message}", 0)
    return objects


async def _list(
    cluster: Cluster, resource: ApiResource[Any], seen: Callable[[str, int], None]
) -> list[KubeObject]:
    items: list[KubeObject] = []
    token = ""
    while True:
        selector = NOT_TERMINAL if resource is PODS else ""
        page = await cluster.list(resource, field_selector=selector, limit=PAGE, continue_token=token)
        items += page.items
        token = page.continue_token
        if not token:
            seen(resource.name, len(items))
            return items


def write_snapshot(
    listed: dict[ApiResource[Any], list[KubeObject]], folder: Path, taken: str, scrubber: Scrubber | None
) -> Snapshot:
    """Write one file per kind. Raises OSError; nothing is left half-written."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(17, "directory is not empty", str(folder))
    unfinished = folder.with_name(folder.name + ".unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    counts = {}
    for resource, objects in listed.items():
        trees = scrub_all((tree_of(obj, resource) for obj in objects), scrubber)
        counts[resource.name] = len(trees)
        items = {"apiVersion": "v1", "kind": "List", "items": trees}
        (unfinished / f"{resource.name}.json").write_bytes(msgspec.json.encode(items))
    snapshot = Snapshot(1, taken, scrubber is not None, counts)
    (unfinished / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(snapshot)) + b"\n")
    if folder.exists():
        folder.rmdir()
    os.replace(unfinished, folder)
    return snapshot


def read_snapshot(folder: Path) -> list[KubeObject]:
    """The objects of a snapshot; no pods are made for its controllers. Raises ValueError."""
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{folder}: not a snapshot\n  hint: mooring simulate import -o {folder}")
    objects: list[KubeObject] = []
    for resource in WATCHED:
        file = folder / f"{resource.name}.json"
        if file.exists():
            try:
                objects += map(from_dict, msgspec.json.decode(file.read_bytes())["items"])
            except (OSError, msgspec.DecodeError, MalformedObject, KeyError, TypeError) as error:
                raise ValueError(f"{file}: {error}") from None
    return objects
