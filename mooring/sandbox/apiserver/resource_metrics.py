"""metrics.k8s.io: what pods and nodes use at this moment, as metrics-server reports it. Nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from mooring.api.objects import Node, Pod
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.errors import not_found
from mooring.sandbox.apiserver.objects import Tree, encode_tail
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.verbs.options import list_options
from mooring.sandbox.apiserver.verbs.reading import Listing
from mooring.sandbox.apiserver.verbs.request import Answer, ListAnswer, ObjectAnswer, Request
from mooring.sandbox.apiserver.verbs.selectors import matcher
from mooring.sandbox.programs.usage import ANNOTATIONS, container_usage

WINDOW = "15s"
_pod = msgspec.json.Decoder(Pod).decode
_node = msgspec.json.Decoder(Node).decode


def _pods(api: Api, namespace: str = "") -> Iterator[Pod]:
    table = api.store.table("pods")
    for key in table.keys(namespace):
        yield _pod(table.records[key].body)


def _pod_metrics(request: Request) -> Iterator[Record]:
    for pod in _pods(request.api, request.namespace):
        usage = container_usage(pod, request.api.loads, request.api.clock())
        if usage:
            containers = [{"name": name, "usage": _texts(one)} for name, one in usage.items()]
            yield _record(request.api, pod, {"containers": containers})


def _node_metrics(request: Request) -> Iterator[Record]:
    by_node: dict[str, list[Mapping[str, int]]] = {}
    for pod in _pods(request.api):
        usage = container_usage(pod, request.api.loads, request.api.clock())
        by_node.setdefault(pod.spec.node_name, []).extend(usage.values())
    for record in request.api.store.table("nodes").records.values():
        node = _node(record.body)
        if node.ready:
            yield _record(request.api, node, {"usage": _texts(_total(by_node.get(node.name, ())))})


def _total(usages: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = dict.fromkeys(ANNOTATIONS, 0)
    for usage in usages:
        for resource, nano in usage.items():
            total[resource] += nano
    return total


def _texts(usage: Mapping[str, int]) -> dict[str, str]:
    """Return CPU in nanocores and memory in KiB, as metrics-server does."""
    return {"cpu": f"{usage['cpu']}n", "memory": f"{usage['memory'] // (1024 * 10**9)}Ki"}


def _record(api: Api, of: Pod | Node, content: Tree) -> Record:
    """Return the metrics of an object as a record, without a version."""
    now = api.now()
    metadata = {"name": of.name, "creationTimestamp": now}
    if of.namespace:
        metadata["namespace"] = of.namespace
    labels = of.metadata.labels
    tree = {
        "metadata": {**metadata, "labels": labels} if labels else metadata,
        "timestamp": now,
        "window": WINDOW,
    }
    return Record(key_of(of.namespace, of.name), 0, encode_tail({**tree, **content}), labels)


def _answer(measure: Callable[[Request], Iterator[Record]], request: Request) -> Answer:
    resource = request.resource
    if request.verb == "get":
        for record in measure(request):
            if record.name == request.name:
                return ObjectAnswer(record, resource)
        raise not_found(resource.group, resource.plural, request.name)
    options = list_options(request.params)
    matches = matcher(resource, "", options.label_selector, options.field_selector)
    records = [record for record in measure(request) if matches is None or matches(record)]
    return ListAnswer(Listing(records, request.api.store.version), resource)


METRICS: dict[str, Callable[[Request], Answer]] = {
    "nodes.metrics.k8s.io": lambda request: _answer(_node_metrics, request),
    "pods.metrics.k8s.io": lambda request: _answer(_pod_metrics, request),
}
"""By table, though none of these is ever stored."""
