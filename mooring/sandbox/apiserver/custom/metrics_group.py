"""The kinds of metrics.k8s.io: defined by schemas, like custom kinds. Elsewhere metrics-server adds them."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Registry, Resource
from mooring.sandbox.apiserver.context.traits import Traits
from mooring.sandbox.apiserver.custom.custom_codec import CustomCodec
from mooring.sandbox.apiserver.custom.custom_strategy import CustomStrategy
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.printing.custom_columns import custom_printer

_USAGE: Final[Tree] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}
_TIMES: Final[Tree] = {
    "timestamp": {"type": "string", "format": "date-time"},
    "window": {"type": "string"},
}
_CONTAINER: Final[Tree] = {"type": "object", "properties": {"name": {"type": "string"}, "usage": _USAGE}}


def serve_metrics(registry: Registry) -> None:
    """Serve the usage of nodes and pods."""
    registry.add(_resource("NodeMetrics", "nodes", {"usage": _USAGE}))
    registry.add(_resource("PodMetrics", "pods", {"containers": {"type": "array", "items": _CONTAINER}}))


def _resource(kind: str, plural: str, content: Tree) -> Resource:
    gvk = GroupVersionKind("metrics.k8s.io", "v1beta1", kind)
    tree: Tree = {"type": "object", "properties": {**_TIMES, **content}}
    schema = Schema(tree)
    return Resource(
        gvk,
        plural,
        namespaced=plural == "pods",
        verbs=("get", "list"),
        codec=CustomCodec(gvk, tree, schema),
        strategy=CustomStrategy(Traits(), tree, schema, terminating=False),
        singular=plural[:-1],
        custom=True,
        printer=custom_printer(()),
        schema=tree,
    )
