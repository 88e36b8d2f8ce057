"""Targets: groups of pods, as users write them."""

from __future__ import annotations

import json
from typing import Any

from mooring.api.decode import from_dict
from mooring.api.errors import ObjectError
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.plugins import default_admission
from mooring.sandbox.apiserver.builtin import builtin_registry
from mooring.sandbox.apiserver.context.api import Api
from tests.core.groups.group_kit import ALL_GATES, cluster_with, gpu_node, gpu_pod
from tests.fuzz.mutation import mutate_json
from tests.fuzz.target import target, untimed
from tests.sandbox.apiserver.kit import Direct

Tree = dict[str, Any]
_VERSION = "scheduling.k8s.io/v1alpha2"
_GROUP: Tree = {
    "apiVersion": _VERSION,
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "priorityClassName": "",
        "disruptionMode": "PodGroup",
    },
}
_WORKLOAD: Tree = {
    "apiVersion": _VERSION,
    "kind": "Workload",
    "metadata": {"name": "w"},
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
        "podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}],
    },
}
_WORDS = (
    "spec", "schedulingPolicy", "gang", "basic", "minCount", "schedulingConstraints", "topology", "key",
    "rack", "disruptionMode", "podGroupTemplates", "podGroupTemplateRef", "workload", "workloadName",
    "podGroupTemplateName", "priorityClassName", "priority", "resourceClaims", "controllerRef", "metadata",
    "annotations", "status", "conditions", "mooring/preferred-topology", "levels", "2147483647",
    "PodGroup", "Workload",
)  # fmt: skip


class _WithGroups(Direct):
    """An API in memory that serves groups."""

    def __init__(self) -> None:
        super().__init__()
        admission = default_admission(["ServiceAccount"])
        self.api = Api(
            self.store, builtin_registry(ALL_GATES), admission, clock=self.clock, seed=1, features=ALL_GATES
        )


_server: list[_WithGroups] = []


@target("group-manifests", mutate_json, [json.dumps(_GROUP), json.dumps(_WORKLOAD)], _WORDS, (ApiError,))
def create_group(data: bytes) -> object:
    """Create a PodGroup or a Workload, write it again and delete it."""
    if not _server:
        with untimed():
            _server.append(_WithGroups())
    server = _server[0]
    data = data.decode("utf-8", "replace").encode()  # as HTTP does it
    plural = "workloads" if b'"Workload"' in data else "podgroups"
    where = {"group": "scheduling.k8s.io", "version": "v1alpha2"}
    created = server.tree("create", plural, "", data, fieldValidation="Strict", **where)
    name = created["metadata"]["name"]
    try:
        server.ask("update", plural, name, created, **where)
        return sorted(created["spec"])
    finally:
        server.ask("delete", plural, name, **where)


@target(
    "group-scheduling",
    mutate_json,
    [json.dumps([_GROUP, 2]), json.dumps([_GROUP, 1])],
    _WORDS,
    (ObjectError, ValueError),  # the test cluster reports manifests by the latter
)
def schedule_group(data: bytes) -> object:
    """Schedule some pods of a group."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return "no JSON"
    if not (isinstance(tree, list) and len(tree) == 2 and isinstance(tree[0], dict)):
        return "no group"
    with untimed():
        cluster = cluster_with(gpu_node("a", rack="r"), gpu_node("b", rack="s"), gates=ALL_GATES)
    from_dict(tree[0])
    cluster.apply(tree[0])
    count = tree[1] if isinstance(tree[1], int) else 2
    cluster.apply(*(gpu_pod(f"g-{number}", "g", 4) for number in range(max(0, min(count, 4)))))
    cluster.schedule()
    return sum(bool(one.spec.node_name) for one in cluster.pods())
