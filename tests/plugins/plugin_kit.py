"""Small clusters, and one plugin asked about them.

Every question is put to the whole table, to each row alone and, where the plugin has that form, to each node,
and the answers must agree: the framework asks again only about rows that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from mooring.api.objects import Node, Pod
from mooring.framework.events import ClusterEvent, Hint
from mooring.framework.handle import Handle
from mooring.framework.plugin import Plugin, overrides
from mooring.framework.pod import PodInfo
from mooring.framework.status import Code, Status
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.engine_state import EngineState
from mooring.runtime.runners import FilterRunner, ScoreRunner
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore
from tests.state import objects

P = TypeVar("P", bound=Plugin)


class EmptyHandle:
    """A Handle of a cluster without objects."""

    def __init__(self) -> None:
        self.listers = ObjectStore()

    def feature_enabled(self, name: str) -> bool:
        return True

    def shared(self, kind: type[Any], make: Callable[[], Any]) -> Any:
        return make()


def make(cls: type[P], **args: Any) -> P:
    """A plugin with these arguments, or with its defaults."""
    return cls(cls.args_type(**args) if cls.args_type is not None else None, cast(Handle, EmptyHandle()))


def make_node(
    name: str,
    allocatable: Mapping[str, Any] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **status: Any,
) -> Node:
    """A node without a hostname label."""
    return objects.node(name, allocatable, labels=labels or {}, spec=spec, status=status)


def make_pod(name: str = "pod", requests: Mapping[str, Any] | None = None, **more: Any) -> Pod:
    return objects.pod(name, requests, **more)


class Cluster(ClusterState):
    """Nodes, and pods on them: name → pods."""

    def __init__(self, nodes: Iterable[Node], pods: Mapping[str, Sequence[Pod]] | None = None) -> None:
        super().__init__()
        for node in nodes:
            self.add_node(node)
        for node_name, there in (pods or {}).items():
            for pod in there:
                self.assume(self.info(pod), node_name)

    def pre_filter(self, plugin: Plugin, pod: Pod) -> Any:
        return plugin.pre_filter(EngineState(), self.info(pod), self.nodes)

    def filter(self, plugin: Plugin, pod: Pod) -> dict[str, Status | None]:
        """Node name → why the pod may not go there, or None."""
        state, info = EngineState(), self.info(pod)
        if overrides(type(plugin), "pre_filter"):
            answer = plugin.pre_filter(state, info, self.nodes)
            if isinstance(answer, Status) and answer.code is Code.SKIP:
                return dict.fromkeys(self.nodes.names)
        whole = _refusals(plugin, state, info, self.nodes)
        assert [_refusals(plugin, state, info, row)[0] for row in self._rows()] == whole
        if overrides(type(plugin), "filter"):
            assert [plugin.filter(state, info, node) for node in self.nodes] == whole
        return dict(zip(self.nodes.names, whole, strict=True))

    def score(self, plugin: Plugin, pod: Pod) -> list[int] | None:
        """Raw scores in the order of the nodes; None where the plugin skips."""
        state, info = EngineState(), self.info(pod)
        if overrides(type(plugin), "pre_score"):
            status = plugin.pre_score(state, info, self.nodes)
            if status is not None:
                assert status.code is Code.SKIP, status
                return None
        runner = ScoreRunner(plugin, 1)
        whole = runner.run(state, info, self.nodes).tolist()
        assert [int(runner.run(state, info, row)[0]) for row in self._rows()] == whole
        assert [runner.run_one(state, info, row[0], row) for row in self._rows()] == whole
        return cast(list[int], whole)

    def normalize(self, plugin: Plugin, scores: Sequence[int]) -> list[int]:
        info = self.info(make_pod())
        given = np.array(scores, np.int64)
        return cast(list[int], plugin.normalize_score(EngineState(), info, given, self.nodes).tolist())

    def _rows(self) -> list[EngineNodes]:
        return [self.nodes.take(slice(i, i + 1)) for i in range(len(self.nodes))]


def _refusals(plugin: Plugin, state: EngineState, pod: PodInfo, nodes: EngineNodes) -> list[Status | None]:
    verdicts = FilterRunner(plugin).run(state, pod, nodes)
    if verdicts is None:
        return [None] * len(nodes)
    return [verdicts.statuses[code] if code else None for code in verdicts.codes.tolist()]


def hint(plugin: Plugin, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> bool:
    """Whether some registration of the plugin covers the event and would queue the pod."""
    shapes = ClusterState()
    old, new = (shapes.info(each) if isinstance(each, Pod) else each for each in (old, new))
    matching = [each.hint for each in plugin.events_to_register() if each.event.matches(event)]
    return any(ask is None or ask(shapes.info(pod), old, new) is Hint.QUEUE for ask in matching)
