"""Which single change would make a pod fit, and on how many nodes; if none would, which two.

Each candidate is a copy of the pod for which the filters run again. Only changes that were seen to open a
node are returned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.api.objects import Pod, Taint
from mooring.explain import alterations, commands, words
from mooring.explain.advice import LARGER_NODE, actions, missing_claim
from mooring.explain.alterations import Alteration, Group
from mooring.explain.blockers import anti_affinity_of_others
from mooring.explain.devices import claim_changes
from mooring.explain.explanation import Change, Now
from mooring.explain.fresh_node import fresh_node
from mooring.explain.refusing import EXAMPLES, PROMISED, Rows
from mooring.explain.rehearsal import Rehearsal
from mooring.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_resources_fit.requests import TOO_MANY_PODS

MOST_PAIRS = 3
MOST_DESCRIBED = 12  # pairs, to choose those from
MOST_NODES_WITHOUT = 16  # nodes for which deleting pods is tried


def changes(rehearsal: Rehearsal) -> list[Change]:
    """The changes that each would do alone."""
    search = _Search(rehearsal)
    return [*search.singles(), *search.other_pods(), *claim_changes(rehearsal), *fresh_node(rehearsal)]


def pairs(rehearsal: Rehearsal) -> list[Change]:
    """The changes that would do two at a time."""
    return _Search(rehearsal).pairs()


def altered_pod(rehearsal: Rehearsal, kind: str, field: str) -> Pod | None:
    """Return the pod as a change of this kind and field would make it; None if there is no such change."""
    for group in _Search(rehearsal).groups():
        for each in _all(group):
            if each.field == field and kind in (each.kind, LARGER_NODE):
                return each.pod
    return None


class _Search:
    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._pod = rehearsal.pod.pod
        self._taints = self._frequent_taints()
        self._requests = [name for name, count in rehearsal.pod.requests.items() if count]
        nodes = rehearsal.nodes
        self._offered = [name for name in nodes.resources if nodes.allocatable[name].any()]

    def _frequent_taints(self) -> list[Taint]:
        """Every taint that there is, those on most nodes first."""
        ids, sets = self._rehearsal.nodes.taints
        counts: dict[Taint, int] = {}
        for taints, nodes in zip(sets, np.bincount(ids[ids >= 0], minlength=len(sets)).tolist(), strict=True):
            for taint in taints if nodes else ():
                counts[taint] = counts.get(taint, 0) + nodes
        return sorted(counts, key=lambda taint: -counts[taint])

    # ---- the pod altered

    def singles(self) -> Iterator[Change]:
        for group in self._groups(self._pod):
            changes = [change for each in group.each for change in self._try(each)]
            yield from changes or ([] if group.together is None else self._try(group.together))

    def pairs(self) -> list[Change]:
        """Two changes of different kinds, those that open most nodes first."""
        candidates: list[tuple[Alteration, Alteration, Rows]] = []
        for i, group in enumerate(self._groups(self._pod)):
            for first in _all(group):
                if self._rehearsal.is_exhausted:
                    break
                following = [each for other in list(self._groups(first.pod))[i + 1 :] for each in _all(other)]
                candidates += [(first, second, self._rows(second, first)) for second in following]
        candidates = [each for each in candidates if len(each[2])]
        candidates.sort(key=lambda each: -len(each[2]))
        described = [self._described_both(*each) for each in candidates[:MOST_DESCRIBED]]
        ready = [each for each in described if each is not None]
        ready.sort(key=lambda change: (change.parts[0].kind == LARGER_NODE, -change.nodes))
        return ready[:MOST_PAIRS]

    def groups(self) -> Iterator[Group]:
        return self._groups(self._pod)

    def _groups(self, pod: Pod) -> Iterator[Group]:
        for group in alterations.alterations(pod, self._taints, self._requests, self._offered):
            yield Group([self._with_claim(each, pod) for each in group.each], group.together)

    def _with_claim(self, alteration: Alteration, pod: Pod) -> Alteration:
        return missing_claim(alteration, pod, self._rehearsal) if alteration.kind == "volume" else alteration

    def _rows(self, *made: Alteration) -> Rows:
        """The rows that would take the pod of the first of these, which includes the others."""
        claims = [each.claim for each in made if each.claim is not None]
        return np.flatnonzero(self._rehearsal.fits(made[0].pod, *claims))

    def _try(self, alteration: Alteration) -> list[Change]:
        rows = self._rows(alteration)
        return self._described(alteration, rows) if len(rows) else []

    def _described_both(self, first: Alteration, second: Alteration, rows: Rows) -> Change | None:
        firsts, seconds = self._described(first, rows), self._described(second, rows)
        if not firsts or not seconds:
            return None
        if firsts[0].kind == LARGER_NODE:
            seconds[0].command = ""  # it names a node that exists
        return paired(firsts[0], seconds[0])

    def _described(self, alteration: Alteration, rows: Rows) -> list[Change]:
        return [
            self._change(
                each.kind or alteration.kind,
                each.text,
                rows[:1] if each.kind == LARGER_NODE else rows,
                alteration.field,
                each.command,
            )
            for each in actions(alteration, self._rehearsal, rows)
        ]

    def _change(self, kind: str, text: str, rows: Rows, field: str = "", command: str = "") -> Change:
        examples = self._rehearsal.refusing.some(rows)
        return Change(kind=kind, text=text, nodes=len(rows), examples=examples, field=field, command=command)

    # ---- other pods

    def other_pods(self) -> Iterator[Change]:
        """Pods in the way whose deletion was seen to open a node, and nodes nominated to other pods."""
        for plugin, reasons, rows in self._rehearsal.refusing.alone():
            if plugin == PROMISED:
                yield self._nominated(rows)
            elif reasons == (TOO_MANY_PODS,):
                yield from self._without_a_pod(rows)
            elif reasons == (InterPodAffinity.EXISTING_ANTI_AFFINITY_NOT_SATISFIED,):
                yield from self._without_anti_affinity(rows)

    def _nominated(self, rows: Rows) -> Change:
        names = self._rehearsal.nodes.names
        nominator = self._rehearsal.scheduler.queue.nominator
        pods = [pod.key for row in rows.tolist() for pod in nominator.nominated_for(names[row])]
        text = (
            f"wait for {words.listed(pods[:2], len(pods))}, nominated there after preemption, or delete them"
        )
        return self._change("nomination", text, rows, command=_delete(pods[0]) if pods else "")

    def _without_a_pod(self, rows: Rows) -> Iterator[Change]:
        """Delete the least important pod of a node that has as many pods as it may have."""
        for row in rows[:MOST_NODES_WITHOUT].tolist():
            node = self._rehearsal.nodes[row]
            victims = sorted(node.pods, key=lambda pod: pod.priority)[:1]
            if victims and self._rehearsal.fits_without(row, victims):
                text = f"delete a pod such as {victims[0].key}: {node.name} has as many as it may have"
                yield self._change("podSlots", text, rows, command=_delete(victims[0].key))
                return

    def _without_anti_affinity(self, rows: Rows) -> Iterator[Change]:
        others = set(anti_affinity_of_others(self._rehearsal.scheduler, self._rehearsal.pod))
        for row in rows[:MOST_NODES_WITHOUT].tolist():
            victims = [pod for pod in self._rehearsal.nodes[row].pods if pod.key in others]
            if victims and self._rehearsal.fits_without(row, victims):
                names = words.listed([pod.key for pod in victims[:2]], len(victims))
                text = f"delete {names} from {self._rehearsal.nodes.names[row]}: anti-affinity to this pod"
                opened = np.array([row], np.intp)
                yield self._change("existingAntiAffinity", text, opened, command=_delete(victims[0].key))
                return


def paired(first: Change, second: Change) -> Change:
    """Two changes as one."""
    text = f"{first.text}; and {second.text}"
    return Change(kind="pair", text=text, nodes=second.nodes, examples=second.examples, parts=[first, second])


def _all(group: Group) -> list[Alteration]:
    return group.each if group.together is None else [*group.each, group.together]


def _delete(key: str) -> str:
    namespace, _, name = key.partition("/")
    return commands.kubectl("delete", "pod", name, namespace=namespace)


def ungated(pod: Pod, now: Now) -> list[Change]:
    """The changes for a pod with scheduling gates: without them it is not tried at all."""
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if not gates:
        return now.changes
    text = f"remove scheduling gate{'s' if len(gates) > 1 else ''} {', '.join(gates)}"
    patch = '[{"op":"remove","path":"/spec/schedulingGates"}]'
    command = commands.kubectl("patch", "pod", pod.name, "--type=json", "-p", patch, namespace=pod.namespace)
    field = "spec.schedulingGates"
    gate = Change(kind="schedulingGate", text=text, nodes=now.feasible, field=field, command=command)
    if now.feasible:
        gate.examples = [each.node for each in now.ranking[:EXAMPLES]]
        return [gate]
    return [paired(gate, change) for change in now.changes if not change.parts]
