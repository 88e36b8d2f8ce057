"""Why no node has the devices that a pod's claims need: what each claim needs, what the best nodes have,
which pods use the rest, and which single change would open a node."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from mooring.api.devices import DeviceRequest, DeviceToleration, ExactDeviceRequest, ResourceClaim
from mooring.explain import commands, words
from mooring.explain.explanation import Change
from mooring.explain.refusing import Rows
from mooring.explain.rehearsal import Rehearsal
from mooring.plugins.dynamic_resources.claim_filter import CANNOT_ALLOCATE
from mooring.plugins.dynamic_resources.claims import ClaimProblem, claims_of
from mooring.plugins.dynamic_resources.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo
from mooring.plugins.dynamic_resources.manager import DeviceManager
from mooring.plugins.dynamic_resources.plan import Alternative, ClaimPlan, expressions
from mooring.plugins.dynamic_resources.search import (
    AllocationError,
    PlannedClaim,
    Search,
    SearchTimeoutError,
    World,
)
from mooring.plugins.dynamic_resources.usage import Usage
from mooring.runtime.engine_nodes import EngineNode

MOST_NODES = 2  # that a line describes
MOST_ROWS = 200  # that a change is tried on
MOST_HOLDERS = 20
MOST_STEPS = 50_000  # of a search, of which there are many
_AT_LEAST = re.compile(r'device\.capacity\["[^"]*"\]\.(\w+)\.compareTo\(quantity\("([^"]*)"\)\) >= 0')
_EQUAL = re.compile(r'device\.attributes\["[^"]*"\]\.(\w+) == (.+)')


class _Holder(NamedTuple):
    """A claim that devices are allocated to, and the pods that use it."""

    claim: ResourceClaim
    name: str

    @classmethod
    def of(cls, claim: ResourceClaim) -> _Holder:
        users = [f"{claim.namespace}/{user.name}" for user in claim.status.reserved_for]
        return cls(claim, words.listed(users[:2], len(users)) if users else f"claim {claim.key}")


def describe_claims(rehearsal: Rehearsal) -> list[str]:
    """Return a line for each request that too few devices are free for, on every node."""
    shortage = _Shortage.of(rehearsal)
    return [] if shortage is None else list(shortage.lines())


def claim_changes(rehearsal: Rehearsal) -> list[Change]:
    """The changes of claims, or of pods that hold devices, that each would do alone."""
    shortage = _Shortage.of(rehearsal)
    return [] if shortage is None else list(shortage.changes())


class _Shortage:
    def __init__(self, rehearsal: Rehearsal, manager: DeviceManager, claims: Sequence[ResourceClaim]) -> None:
        self._rehearsal = rehearsal
        self._manager = manager
        self._claims = claims
        self._world = manager.world
        self._rows = self._rejected_rows()
        self._holders: dict[DeviceId, _Holder] = {}
        for claim in manager.tracker.all():
            for result in () if claim.allocation is None else claim.allocation.devices.results:
                self._holders[result.driver, result.pool, result.device] = _Holder.of(claim)

    @classmethod
    def of(cls, rehearsal: Rehearsal) -> _Shortage | None:
        manager = rehearsal.scheduler.shared.get(DeviceManager)
        if manager is None or not rehearsal.pod.spec.resource_claims:
            return None
        manager.refresh()
        try:
            claims = [each for each in claims_of(rehearsal.pod, manager.tracker) if each.allocation is None]
        except ClaimProblem:
            return None
        shortage = cls(rehearsal, manager, claims)
        return shortage if claims and len(shortage._rows) else None

    def _rejected_rows(self) -> Rows:
        """The nodes that lack devices and nothing else."""
        rows = [
            rows
            for plugin, reasons, rows in self._rehearsal.refusing.alone()
            if plugin == DynamicResources.name and reasons == (CANNOT_ALLOCATE,)
        ]
        return np.concatenate(rows) if rows else np.zeros(0, np.intp)

    # ---- what is missing

    def lines(self) -> Iterator[str]:
        total = len(self._rehearsal.nodes)
        entries = {
            claim.name: entry.name
            for entry in self._rehearsal.pod.spec.resource_claims
            for claim in self._claims
            if entry.resource_claim_name == claim.name or self._is_generated(entry.name, claim)
        }
        for claim in self._claims:
            name = entries.get(claim.name, claim.name)
            for request in self._manager.plans.of(claim).requests:
                needs = " or ".join(_needs(each) for each in request.alternatives)
                best = "; ".join(self._best_nodes(request.alternatives[0]))
                yield f"0/{total} nodes: claim `{name}` needs {needs}; {best}"

    def _is_generated(self, entry: str, claim: ResourceClaim) -> bool:
        """Whether a claim was made of a template for an entry of the pod."""
        statuses = self._rehearsal.pod.status.resource_claim_statuses
        return any(each.name == entry and each.resource_claim_name == claim.name for each in statuses)

    def _best_nodes(self, alternative: Alternative) -> Iterator[str]:
        rows = self._rows[:MOST_ROWS].tolist()
        counts = [(row, *self._devices(alternative, self._node(row))) for row in rows]
        counts.sort(key=lambda each: (-len(each[1]), -len(each[2])))
        for row, free, taken in counts[:MOST_NODES]:
            yield f"{self._node(row).name} has {len(free)}" + _used(taken, self._holders, alternative)

    def _node(self, row: int) -> EngineNode:
        return self._rehearsal.nodes[row]

    def _devices(
        self, alternative: Alternative, node: EngineNode
    ) -> tuple[list[DeviceInfo], list[DeviceInfo]]:
        """The devices of a node that a request selects: those it could have now, and the others."""
        device_class = self._manager.device_class(alternative.class_name)
        selectors = () if device_class is None else expressions(device_class.spec.selectors)
        free: list[DeviceInfo] = []
        taken: list[DeviceInfo] = []
        for device in self._manager.inventory.of(node).devices:
            _, verdict = self._world.selectors.all_match((*selectors, *alternative.expressions), device.input)
            if verdict is True:
                is_taken = self._world.usage.holds(device.id) or _blocking_taints(device, alternative)
                (taken if is_taken else free).append(device)
        return free, taken

    # ---- what would help

    def changes(self) -> Iterator[Change]:
        for i, claim in enumerate(self._claims):
            for j, request in enumerate(claim.spec.devices.requests):
                if request.exactly is not None:
                    yield from self._easier(i, j, request.exactly)
        yield from self._freed()

    def _easier(self, claim: int, index: int, request: ExactDeviceRequest) -> Iterator[Change]:
        name = self._claims[claim].spec.devices.requests[index].name
        where = f"request {name} of claim {self._claims[claim].name}"
        for count in range(request.count - 1, 0, -1):
            rows = self._opened(self._altered(claim, index, replace(request, count=count)))
            if len(rows):
                yield self._change(f"ask for {words.count(count, 'device')} in {where}", rows)
                break
        for i, selector in enumerate(request.selectors):
            kept = [*request.selectors[:i], *request.selectors[i + 1 :]]
            rows = self._opened(self._altered(claim, index, replace(request, selectors=kept)))
            if len(rows) and selector.cel is not None:
                yield self._change(f"drop {_in_words(selector.cel.expression)} from {where}", rows)
        tolerations = [*request.tolerations, DeviceToleration(operator="Exists")]
        rows = self._opened(self._altered(claim, index, replace(request, tolerations=tolerations)))
        if len(rows):
            yield self._change(f"tolerate the taints of the devices in {where}", rows)

    def _altered(self, claim: int, index: int, request: ExactDeviceRequest) -> list[PlannedClaim]:
        planned = [PlannedClaim(each, self._manager.plans.of(each)) for each in self._claims]
        spec = self._claims[claim].spec
        requests = list(spec.devices.requests)
        requests[index] = DeviceRequest(name=requests[index].name, exactly=request)
        spec = replace(spec, devices=replace(spec.devices, requests=requests))
        planned[claim] = PlannedClaim(replace(self._claims[claim], spec=spec), ClaimPlan(spec))
        return planned

    def _freed(self) -> Iterator[Change]:
        """Pods whose devices would be enough."""
        planned = [PlannedClaim(each, self._manager.plans.of(each)) for each in self._claims]
        held: dict[str, list[tuple[int, DeviceId]]] = defaultdict(list)
        for row in self._rows[:MOST_ROWS].tolist():
            for device in self._manager.inventory.of(self._node(row)).devices:
                holder = self._holders.get(device.id)
                if holder is not None and len(holder.claim.status.reserved_for) == 1:
                    held[holder.claim.key].append((row, device.id))
        for devices in list(held.values())[:MOST_HOLDERS]:
            holder = self._holders[devices[0][1]]
            usage = _without(self._manager, holder.claim)
            rows = self._opened(planned, self._world._replace(usage=usage), {row for row, _ in devices})
            if len(rows):
                names = words.listed([device[2] for _, device in devices])
                pod = holder.claim.status.reserved_for[0].name
                command = commands.kubectl("delete", "pod", pod, namespace=holder.claim.namespace)
                text = f"delete {holder.name}, which uses {names} of {self._node(int(rows[0])).name}"
                yield self._change(text, rows, command)

    def _opened(
        self, planned: Sequence[PlannedClaim], world: World | None = None, only: set[int] | None = None
    ) -> Rows:
        rows = [row for row in self._rows[:MOST_ROWS].tolist() if only is None or row in only]
        return np.array([row for row in rows if self._solves(planned, world or self._world, row)], np.intp)

    def _solves(self, planned: Sequence[PlannedClaim], world: World, row: int) -> bool:
        node = self._node(row)
        try:
            reachable = self._manager.inventory.of(node)
            search = Search(world, node, reachable, planned, lambda steps: steps > MOST_STEPS)
            return search.solve() is not None
        except (AllocationError, SearchTimeoutError):
            return False

    def _change(self, text: str, rows: Rows, command: str = "") -> Change:
        examples = self._rehearsal.refusing.some(rows)
        return Change(kind="devices", text=text, nodes=len(rows), examples=examples, command=command)


def _without(manager: DeviceManager, claim: ResourceClaim) -> Usage:
    """The devices in use if a claim gave its own back."""
    usage = Usage()
    for other in manager.tracker.all():
        if other.allocation is not None and other.uid != claim.uid:
            usage.add(other.allocation.devices.results)
    return usage


# ---- words


def _needs(alternative: Alternative) -> str:
    count = "all devices" if alternative.all else words.count(alternative.count, "device")
    conditions = " and ".join(map(_in_words, alternative.expressions))
    return f"{count} of class {alternative.class_name}" + (f" with {conditions}" if conditions else "")


def _in_words(expression: str) -> str:
    """A condition on a device: the usual ones in short, others as they are."""
    parts = expression.split(" && ")
    return " and ".join(_condition(part.strip()) for part in parts)


def _condition(expression: str) -> str:
    for pattern, word in ((_AT_LEAST, "≥"), (_EQUAL, "=")):
        match = pattern.fullmatch(expression)
        if match is not None:
            return f"{match[1]} {word} {match[2]}"
    return f"`{expression}`"


def _used(devices: Sequence[DeviceInfo], holders: dict[DeviceId, _Holder], alternative: Alternative) -> str:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for device in devices:
        holder = holders.get(device.id)
        taints = _blocking_taints(device, alternative)
        if holder is not None:
            by_reason[f"used by {holder.name}"].append(device.device.name)
        elif taints:
            by_reason[f"tainted {words.listed(taints)}"].append(device.device.name)
        else:
            by_reason["in use"].append(device.device.name)
    parts = [f"{words.listed(names[:4], len(names))} {reason}" for reason, names in by_reason.items()]
    return f" ({', '.join(parts[:3])})" if parts else ""


def _blocking_taints(device: DeviceInfo, alternative: Alternative) -> list[str]:
    tolerations = alternative.tolerations
    return [taint.key for taint in device.taints if not any(each.tolerates(taint) for each in tolerations)]
