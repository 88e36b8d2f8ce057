"""Which single change would make a pod fit, and on how many nodes.

If possible, the change is made to a copy of the pod and the filters run again. The remaining nodes, which a
single plugin rejects for a reason that no such change removes, are reported too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.api.objects import Taint
from mooring.explain import alterations, words
from mooring.explain.alterations import Alteration, Group
from mooring.explain.blockers import anti_affinity_of_others, port_holders
from mooring.explain.explanation import Change
from mooring.explain.fresh_node import fresh_node
from mooring.explain.refusing import PROMISED, Rows
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.nodes import BoolArray
from mooring.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_resources_fit.node_resources_fit import TOO_MANY_PODS, NodeResourcesFit


def changes(rehearsal: Rehearsal) -> list[Change]:
    """The changes that each would do alone."""
    search = _Search(rehearsal)
    found = [*search.resources()]
    for group in search.groups():
        found += search.try_group(group)
    return [*found, *search.left(), *fresh_node(rehearsal)]


class _Search:
    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._pod = rehearsal.pod.pod
        self._opened: BoolArray = np.zeros(len(rehearsal.nodes), np.bool_)  # rows that some change would open

    def _change(self, kind: str, text: str, rows: Rows, field: str = "") -> Change:
        self._opened[rows] = True
        examples = self._rehearsal.refusing.some(rows)
        return Change(kind=kind, text=text, nodes=len(rows), examples=examples, field=field)

    # ---- the pod altered

    def groups(self) -> Iterator[Group]:
        return alterations.alterations(self._pod, self._taints())

    def _taints(self) -> list[Taint]:
        """Every taint that there is, those on most nodes first."""
        ids, sets = self._rehearsal.nodes.taints
        counts: dict[Taint, int] = {}
        for taints, nodes in zip(sets, np.bincount(ids[ids >= 0], minlength=len(sets)).tolist(), strict=True):
            for taint in taints if nodes else ():
                counts[taint] = counts.get(taint, 0) + nodes
        return sorted(counts, key=lambda taint: -counts[taint])

    def try_group(self, group: Group) -> list[Change]:
        found = [change for each in group.each if (change := self._try(each)) is not None]
        if not found and group.together is not None:
            together = self._try(group.together)
            return [] if together is None else [together]
        return found

    def _try(self, alteration: Alteration) -> Change | None:
        rows = np.flatnonzero(self._rehearsal.fits(alteration.pod))
        if not len(rows):
            return None
        text = alteration.text + self._more(alteration, int(rows[0]))
        return self._change(alteration.kind, text, rows, alteration.field)

    def _more(self, alteration: Alteration, row: int) -> str:
        """What else can be said of a change that works, with a node where it does."""
        if alteration.kind == "topologySpread" and alteration.number >= 0:
            return self._wider_skew(alteration.number)
        if alteration.kind == "hostPort":
            holders = port_holders(self._rehearsal.nodes[row], alteration.number)
            return f" ({words.listed(holders[:1])} has it)" if holders else ""
        if alteration.kind == "toleration" and alteration.number < 0:
            node = self._rehearsal.nodes[row]
            return f" ({words.listed([words.taint(each) for each in node.taints])})"
        return ""

    def _wider_skew(self, index: int) -> str:
        """The smallest maxSkew that would do as well as dropping the constraint, by halving."""
        fits = self._rehearsal.fits
        now = self._pod.spec.topology_spread_constraints[index].max_skew
        too_low, enough = now, now + len(self._rehearsal.scheduler.cluster) + 1
        if not fits(alterations.with_max_skew(self._pod, index, enough)).any():
            return ""
        while enough - too_low > 1:
            middle = (too_low + enough) // 2
            if fits(alterations.with_max_skew(self._pod, index, middle)).any():
                enough = middle
            else:
                too_low = middle
        return f", or raise its maxSkew to {enough}"

    # ---- resources

    def resources(self) -> Iterator[Change]:
        """What is too little somewhere: how much of it would do, or how much less to ask for."""
        for resource, wanted in self._rehearsal.pod.requests.items():
            if wanted:
                rows = np.flatnonzero(self._rehearsal.fits(alterations.without_resource(self._pod, resource)))
                if len(rows):
                    yield self._resource(resource, wanted, rows)

    def _resource(self, resource: str, wanted: int, rows: Rows) -> Change:
        free = self._rehearsal.nodes.free[resource][rows]
        rows = rows[np.argsort(-free, kind="stable")]
        most = max(0, int(free.max()))
        field = f"spec.containers[*].resources.requests[{resource}]"
        if most >= wanted:  # a plugin that wants more than the pod asks for, or pods promised a node
            return self._change("resource", f"ask for less {resource}", rows, field)
        asked, there = words.amount(resource, wanted), words.amount(resource, most)
        lacking = words.amount(resource, wanted - most, up=True)
        name = self._rehearsal.nodes.names[rows[0]]
        text = f"{lacking} more {resource}: the pod asks for {asked}, {name} has {there} free"
        largest = int(self._rehearsal.nodes.allocatable[resource][rows].max())
        if largest < wanted:
            offered = words.amount(resource, largest)
            text = (
                f"ask for less {resource}: {asked} is more than any of these nodes offers, {offered} at most"
            )
        return self._change("resource", text, rows, field)

    # ---- what no alteration of the pod removes

    def left(self) -> list[Change]:
        """Nodes that one plugin alone refuses, and that none of the changes so far would open."""
        found = []
        for plugin, reasons, rows in self._rehearsal.refusing.alone():
            several = plugin == NodeResourcesFit.name and len(reasons) > 1
            if plugin == PROMISED or not (several or self._opened[rows].all()):
                kind, text = self._in_words(plugin, reasons)
                found.append(self._change(kind, text, rows))
        return found

    def _in_words(self, plugin: str, reasons: tuple[str, ...]) -> tuple[str, str]:
        if plugin == PROMISED:
            return "nomination", "the pods nominated to these nodes go elsewhere"
        if reasons == (TOO_MANY_PODS,):
            return "podSlots", "one pod less there: the nodes have as many as they may have"
        if reasons == (InterPodAffinity.EXISTING_ANTI_AFFINITY_NOT_SATISFIED,):
            others = anti_affinity_of_others(self._rehearsal.scheduler, self._rehearsal.pod)
            if others:
                return (
                    "existingAntiAffinity",
                    f"the anti-affinity of {words.listed(others[:2], len(others))} goes",
                )
        what = ", ".join(reasons) or "no reason given"
        return "plugin", f"lift the only objection, {plugin or 'a plugin'}: {what}"
