"""What extenders make of the candidates of a preemption: they may strike some out, and name other victims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.framework.pod import PodInfo
from mooring.plugins.default_preemption.victims import Candidate, badness_of, importance
from mooring.runtime.engine_handle import EngineHandle
from mooring.runtime.extender import ExtenderCallError, VictimsOnNode


def ask_extenders(handle: EngineHandle, pod: PodInfo, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates that remain once every interested extender has been asked about those that the ones
    before left. Raises ExtenderCallError where one that cannot be ignored fails."""
    interested = [each for each in handle.extenders if each.preempts and each.is_interested(pod)]
    if not interested:
        return candidates

    def pods_on(node_name: str) -> Sequence[PodInfo] | None:
        node = handle.snapshot.node(node_name)
        return None if node is None else node.pods

    remaining: Mapping[str, VictimsOnNode]
    remaining = {c.node_name: VictimsOnNode(c.victims, c.pdb_violations) for c in candidates}
    for extender in interested:
        try:
            remaining = extender.process_preemption(pod, remaining, pods_on)
        except ExtenderCallError:
            if not extender.ignorable:
                raise
        if not remaining:
            break
    return [_candidate(name, on_node) for name, on_node in remaining.items()]


def _candidate(node_name: str, on_node: VictimsOnNode) -> Candidate:
    victims = tuple(sorted(on_node.pods, key=importance))
    violations = on_node.pdb_violations
    return Candidate(node_name, victims, violations, badness_of(victims, violations))
