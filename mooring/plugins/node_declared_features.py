"""NodeDeclaredFeatures: some things in a pod need a kubelet that can do them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mooring.api.objects import Node, PodSpec
from mooring.framework.cache_key import CacheKey
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.nodes import Nodes, Verdicts, refuse
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, skip, unresolvable
from mooring.plugins.matching import spread
from mooring.runtime.engine_nodes import engine_nodes
from mooring.runtime.runners import PluginError

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures(Plugin):
    """Refuses nodes whose status.declaredFeatures lack what the pod's spec needs."""

    name = "NodeDeclaredFeatures"
    cache_key = CacheKey.NODE

    MISSING = "node(s) didn't match Pod's required features"
    PRE_FILTER_KEY = StateKey[frozenset[str]]("PreFilterNodeDeclaredFeatures")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        required = state.cached(self.PRE_FILTER_KEY, lambda: required_features(pod.spec))
        if not required:
            return skip(shape=True)
        state.write(self.PRE_FILTER_KEY, required)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        required = state.get(self.PRE_FILTER_KEY)
        if required is None:
            key = self.PRE_FILTER_KEY.name
            raise PluginError(self.name, f'error reading "{key}" from cycle-state: not found')
        declared = spread(engine_nodes(nodes).declared_features, required.issubset, np.bool_)
        return None if declared.all() else refuse(~declared, unresolvable(self.MISSING))

    def events_to_register(self) -> Iterable[EventHint]:
        yield requeue_on(
            Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, self._after_node_change
        )
        yield requeue_on(Resource.POD, Action.UPDATE, self._after_pod_update)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        unchanged = old is not None and old.status.declared_features == new.status.declared_features
        return Hint.SKIP if unchanged else Hint.QUEUE

    def _after_pod_update(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        changed = new.uid == pod.uid and required_features(old.spec) != required_features(new.spec)
        return Hint.QUEUE if changed else Hint.SKIP


def required_features(spec: PodSpec) -> frozenset[str]:
    """The node features that a pod cannot run without, as far as kube-scheduler 1.36 infers them."""
    features = set()
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules):
        features.add(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        features.add(USER_NAMESPACES)
    return frozenset(features)
