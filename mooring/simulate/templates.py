"""Objects made of template files: pods that arrive, and nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.decode import load_trees, read_trees
from mooring.api.errors import MalformedObject
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.sandbox.controllers.first_pods import FirstPods, is_workload, workload_of
from mooring.simulate.annotations import annotated_run_time, annotated_start_delay
from mooring.simulate.arrivals import FOREVER, Template

INDEX = re.compile(r"\{\{\s*index\s*\}\}")
NODE_BOUND = ("DaemonSet", "Node")
"""Kinds whose pods are for one node, and gone with it."""
SUFFIXES = (".yaml", ".yml", ".json")


def read_texts(path: Path) -> list[tuple[str, str]]:
    """The text and name of a file, or of each manifest in a directory. Raises ValueError."""
    try:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
            if not inside:
                raise ValueError(f"{path}: no .yaml or .json files in the directory")
            return [(each.read_text(), str(each)) for each in inside]
        return [(path.read_text(), str(path))]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not valid UTF-8") from None


def read_manifests(path: Path) -> list[Tree]:
    """The manifests of a file or directory as they are, those of Lists one by one. Raises ValueError."""
    return [tree for tree, _ in read_trees(read_texts(path)) if isinstance(tree, dict)]


def objects_of(trees: list[tuple[Any, str]], source: str) -> list[KubeObject]:
    manifests = load_trees(trees)
    first = FirstPods(manifests.objects)
    made: list[tuple[Any, str]] = []
    for tree, origin in trees:
        if isinstance(tree, dict) and is_workload(tree):
            made += [(body, origin) for body in first.of(_workload(tree, origin))]
    if made:
        manifests = load_trees([*trees, *made])
    if manifests.problems:
        raise ValueError("\n".join(map(str, manifests.problems)))
    return manifests.objects


def _workload(tree: Any, origin: str) -> KubeObject:
    try:
        return workload_of(tree)
    except MalformedObject as error:
        raise ValueError(f"{origin}: {error}") from None


class Mould:
    """A template file, rendered for each index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        texts = read_texts(path)
        self.trees = list(read_trees(texts))
        self.varies = any(INDEX.search(text) for text, _ in texts)
        if not self.trees:
            raise ValueError(f"{path}: the file is empty")

    def objects(self, index: int) -> list[KubeObject]:
        """The objects of one index. Raises ValueError."""
        trees = [(_fill(tree, str(index)), origin) for tree, origin in self.trees]
        return objects_of(trees, str(self.path))

    def nodes(self, index: int) -> list[Node]:
        node_objects = [obj for obj in self.objects(index) if isinstance(obj, Node)]
        if not node_objects:
            raise ValueError(f"{self.path}: no Node in the template")
        return node_objects

    def pods(self, index: int) -> tuple[list[Template], list[KubeObject]]:
        """Templates of the pods, and the objects that come with them. Raises ValueError."""
        objects = self.objects(index)
        pods = [obj for obj in objects if isinstance(obj, Pod)]
        if not pods:
            raise ValueError(f"{self.path}: no Pod, and no workload that pods are made of")
        return [template_of(pod) for pod in pods], [obj for obj in objects if not isinstance(obj, Pod)]


def _fill(tree: Any, index: str) -> Any:
    if isinstance(tree, str):
        return INDEX.sub(index, tree)
    if isinstance(tree, dict):
        return {_fill(key, index): _fill(value, index) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_fill(each, index) for each in tree]
    return tree


def template_of(pod: Pod) -> Template:
    """A pod as a template. One of a Job has no part in how its pods are scheduled, so they share a shape."""
    owner = pod.metadata.controller()
    if owner is not None and owner.kind == "Job":
        pod = msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=[])
        )
    return Template(
        pod,
        replaced=owner is not None and owner.kind not in NODE_BOUND,
        owner="" if owner is None else f"{owner.kind}/{owner.name}",
        start_delay=annotated_start_delay(pod),
    )


def run_time_of(template: Template) -> float:
    """How long a generated pod runs by its annotation; a Job's for a second, others forever."""
    life = annotated_run_time(template.pod)
    return 1.0 if life == FOREVER and template.owner.startswith("Job/") else life
