"""The search for devices on one node: kube-scheduler's order, so that it finds the same ones.

Depth first over claims, their requests and the devices of each; the first complete solution wins. All claims
of a pod are one search, so that a later claim can make an earlier one take other devices. Within a request
only later devices than the last one are tried; each request starts from the first device again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from mooring.api.devices import EXACT_COUNT, MAX_RESULTS, DeviceClass, ResourceClaim
from mooring.framework.nodes import NodeInfo
from mooring.plugins.dynamic_resources.capacity import Amount, consumption, fits
from mooring.plugins.dynamic_resources.constraints import Constraint, constraint
from mooring.plugins.dynamic_resources.counters import PoolCounters
from mooring.plugins.dynamic_resources.device_selectors import Selectors
from mooring.plugins.dynamic_resources.features import DeviceFeatures
from mooring.plugins.dynamic_resources.inventory import DeviceId, DeviceInfo, NodeDevices, PoolId
from mooring.plugins.dynamic_resources.plan import Alternative, ClaimPlan, Request, expressions
from mooring.plugins.dynamic_resources.usage import Usage

CHECK_EVERY = 256  # steps between looks at the clock
MOST_STEPS = 5_000_000  # on one node, where no clock ends a search: about 10 s
LEAST_SHARE = 0.01  # of the time for one node, which every node gets


class AllocationError(Exception):
    """The claims cannot be handled at all; the message says why."""


class SearchTimeoutError(Exception):
    """The search took longer than it may."""


class SearchTime:
    """The time for the searches of one attempt, on all nodes.

    kube-scheduler gives each node so many seconds, and the first that takes longer ends the attempt, in which
    16 nodes are searched at a time. Here they are searched in turn: a pod holds the others up for about as
    long as there, however many nodes there are.
    """

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        """`timeout` is in seconds; 0 is no limit."""
        self._timeout = timeout
        self._now = now
        self._end = now() + timeout
        self._exceeded = False

    def start(self) -> Callable[[int], bool]:
        """Begin with a node; the result says after so many steps whether the search has to end."""
        began = self._now()

        def is_late(steps: int) -> bool:
            late = self._exceeded or steps > MOST_STEPS
            if self._timeout > 0 and not late:
                now = self._now()
                late = now > began + self._timeout or now > max(
                    self._end, began + self._timeout * LEAST_SHARE
                )
            self._exceeded |= late
            return late

        return is_late


class Chosen(NamedTuple):
    """A device that was found for a request."""

    alternative: Alternative
    device: DeviceInfo
    consumed: Mapping[str, Amount] | None  # None: the device is not shared


class Solution(NamedTuple):
    """The devices of each claim, and which alternative of each of its requests they are for."""

    devices: Sequence[Sequence[Chosen]]
    alternatives: Sequence[Sequence[int]]


class PlannedClaim(NamedTuple):
    """A claim to be allocated."""

    claim: ResourceClaim
    plan: ClaimPlan


class World(NamedTuple):
    """What searches read."""

    usage: Usage
    selectors: Selectors
    device_class: Callable[[str], DeviceClass | None]
    features: DeviceFeatures = DeviceFeatures()


class _Option:
    """An alternative on this node: how many devices it takes, and which if it takes all."""

    __slots__ = ("all_devices", "alternative", "count", "device_class", "expressions")

    def __init__(self, alternative: Alternative, device_class: DeviceClass) -> None:
        self.alternative = alternative
        self.device_class = device_class
        self.expressions = expressions(device_class.spec.selectors)
        self.count = alternative.count
        self.all_devices: list[DeviceInfo] | None = None


_TOO_MANY = None
"""A third outcome: more devices than an allocation can hold."""

_Outcome = bool | None
_Branch = Generator["_Branch", _Outcome, _Outcome]
"""What follows from a choice; it yields what follows from the next one, and is sent the outcome of that."""


class Search:
    """One search; `solve` runs it."""

    def __init__(
        self,
        world: World,
        node: NodeInfo,
        reachable: NodeDevices,
        planned: Sequence[PlannedClaim],
        is_late: Callable[[int], bool] = lambda steps: steps > MOST_STEPS,
    ) -> None:
        self._world = world
        self._node = node
        self._pools = reachable.pools
        self._candidates = reachable.devices
        self._planned = planned
        self._is_late = is_late
        self._steps = 0
        self._options: list[list[list[_Option]]] = []  # by claim and request
        self._constraints: list[list[Constraint]] = []
        self._selected: dict[tuple[DeviceId, int], bool] = {}
        self._taken: dict[DeviceId, set[int]] = {}  # by which claims
        self._shares: dict[DeviceId, tuple[int, dict[str, int]]] = {}
        self._counters: dict[PoolId, PoolCounters] = {}
        self._results: list[list[Chosen]] = [[] for _ in planned]
        self._alternatives = [[0] * len(each.plan.requests) for each in planned]

    def solve(self) -> Solution | None:
        """The devices for all claims, or None; raises AllocationError or SearchTimeoutError."""
        for each in self._planned:
            self._prepare(each)
        if not self._outcome(self._request(0, 0)):
            return None
        return Solution(self._results, self._alternatives)

    # ---- preparation

    def _prepare(self, planned: PlannedClaim) -> None:
        claim, least = planned.claim, 0
        options: list[list[_Option]] = []
        for request in planned.plan.requests:
            self._check_capacity_requests(claim, request)
            request_options = [self._option(claim, alternative) for alternative in request.alternatives]
            options.append(request_options)
            least += min(option.count for option in request_options)
        if least > MAX_RESULTS:
            limit = f"number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {claim.key}: {limit}")
        constraints = []
        for i, spec in enumerate(planned.plan.spec.devices.constraints):
            compiled = constraint(spec)
            if compiled is None:
                problem = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {claim.key}, constraint #{i}: {problem}")
            constraints.append(compiled)
        self._options.append(options)
        self._constraints.append(constraints)

    def _check_capacity_requests(self, claim: ResourceClaim, request: Request) -> None:
        for alternative in () if self._world.features.consumable_capacity else request.alternatives:
            if alternative.has_capacity:
                what = "subrequest" if request.has_subrequests else "request"
                problem = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
                raise AllocationError(f"claim {claim.key}, {what} {alternative.name}: {problem}")

    def _option(self, claim: ResourceClaim, alternative: Alternative) -> _Option:
        where = f"claim {claim.key}, request {alternative.name}"
        if alternative.has_unknown_selector:
            raise AllocationError(f"{where}, selector #0: CEL expression empty (unsupported selector type?)")
        if not alternative.class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._world.device_class(alternative.class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{alternative.class_name}" not found'
            raise AllocationError(
                f"{where}: could not retrieve device class {alternative.class_name}: {missing}"
            )
        option = _Option(alternative, device_class)
        if alternative.all:
            option.all_devices = self._all(claim, option, where)
            option.count = len(option.all_devices)
        elif alternative.mode != EXACT_COUNT:
            raise AllocationError(f"{where}: unsupported count mode {alternative.mode}")
        return option

    def _all(self, claim: ResourceClaim, option: _Option, where: str) -> list[DeviceInfo]:
        """Every device that the request selects, in use or not."""
        devices = []
        for pool in self._pools:
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.name} is currently {state}"
                )
            devices += [
                device
                for device in pool.devices
                if self._is_selected(claim, option, device) and self._has_capacity(option, device)
            ]
        return devices

    # ---- the search

    @staticmethod
    def _outcome(first: _Branch) -> _Outcome:
        """Run a branch of the search, however deep it is: a pod may have any number of claims."""
        stack, outcome = [first], None
        while stack:
            try:
                branch = stack[-1].send(outcome)
            except StopIteration as end:
                stack.pop()
                outcome = end.value
            else:
                stack.append(branch)
                outcome = None
        return outcome

    def _request(self, claim: int, request: int) -> _Branch:
        """Allocate from a request on."""
        self._step()
        if claim == len(self._planned):
            return True
        if request == len(self._options[claim]):
            # A later claim may get by with fewer devices if this one takes others.
            return bool((yield self._request(claim + 1, 0)))
        options = self._options[claim][request]
        if not self._planned[claim].plan.requests[request].has_subrequests:
            return (yield self._device(claim, request, options[0], 0, 0))
        outcomes: list[_Outcome] = []
        for i, option in enumerate(options):
            outcome = yield self._device(claim, request, option, 0, 0)
            if outcome:
                self._alternatives[claim][request] = i
                return True
            outcomes.append(outcome)
        return _TOO_MANY if all(outcome is _TOO_MANY for outcome in outcomes) else False

    def _device(self, claim: int, request: int, option: _Option, taken: int, start: int) -> _Branch:
        """Allocate the next device of a request, and all that comes after it."""
        self._step()
        if option.all_devices is not None and not option.all_devices:
            return False
        if taken >= option.count:
            return (yield self._request(claim, request + 1))
        if len(self._results[claim]) + option.count - taken > MAX_RESULTS:
            return _TOO_MANY
        if option.all_devices is not None:
            return (yield self._next_of_all(claim, request, option, taken))
        owner = self._planned[claim].claim
        for position in range(start, len(self._candidates)):
            self._step()
            device = self._candidates[position]
            if (
                self._in_use(claim, option, device)
                or not self._is_selected(owner, option, device)
                or not self._has_capacity(option, device)
            ):
                continue
            undo = self._take(claim, option, device)
            if undo is None:
                continue
            outcome = yield self._device(claim, request, option, taken + 1, position + 1)
            if outcome:
                return True
            undo()
            if outcome is _TOO_MANY:
                return _TOO_MANY
        return False

    def _next_of_all(self, claim: int, request: int, option: _Option, taken: int) -> _Branch:
        assert option.all_devices is not None
        device = option.all_devices[taken]
        undo = self._take(claim, option, device, must=True)
        if undo is None:
            return False
        outcome = yield self._device(claim, request, option, taken + 1, 0)
        if not outcome:
            undo()
        return outcome

    def _step(self) -> None:
        self._steps += 1
        if self._steps % CHECK_EVERY == 0 and self._is_late(self._steps):
            raise SearchTimeoutError

    # ---- candidates

    def _in_use(self, claim: int, option: _Option, device: DeviceInfo) -> bool:
        """An administrator's request may take what is in use elsewhere, once for each claim."""
        users = self._taken.get(device.id)
        if option.alternative.admin:
            return users is not None and claim in users
        return bool(users) or device.id in self._world.usage.exclusive

    def _is_selected(self, claim: ResourceClaim, option: _Option, device: DeviceInfo) -> bool:
        key = (device.id, id(option.alternative))
        selected = self._selected.get(key)
        if selected is None:
            selected = self._selected[key] = self._select(claim, option, device)
        return selected

    def _select(self, claim: ResourceClaim, option: _Option, device: DeviceInfo) -> bool:
        selectors = self._world.selectors
        of_class, of_request = f"class {option.alternative.class_name}", f"claim {claim.key}"
        for owner, selected_by in (
            (of_class, option.expressions),
            (of_request, option.alternative.expressions),
        ):
            i, verdict = selectors.all_match(selected_by, device.input)
            if isinstance(verdict, str):
                raise AllocationError(f"{owner}: selector #{i}: {verdict}")
            if not verdict:
                return False
        return not device.slice.per_device_node_selection or device.matches_node(self._node)

    def _has_capacity(self, option: _Option, device: DeviceInfo) -> bool:
        requested = option.alternative.capacity
        if not requested and device.plain:
            return True
        allocated = self._world.usage.consumed(device.id)
        _, allocating = self._shares.get(device.id, (0, {}))
        return fits(device.capacity, requested, allocated, allocating)

    def _take(
        self, claim: int, option: _Option, device: DeviceInfo, must: bool = False
    ) -> Callable[[], None] | None:
        """Take a device if nothing speaks against it; how to give it back."""
        alternative = option.alternative
        if (not device.shared or not alternative.admin) and self._in_use(claim, option, device):
            return None
        if device.blocked:
            return None
        counters = self._take_counters(device)
        if counters is False:
            return None
        tolerated = all(any(t.tolerates(taint) for t in alternative.tolerations) for taint in device.taints)
        added: list[Constraint] = []
        satisfied = tolerated
        if tolerated:
            for each in self._constraints[claim]:
                if not each.add(alternative, device):
                    satisfied = False
                    break
                added.append(each)

        def undo_checks() -> None:
            for each in reversed(added):
                each.remove(alternative)
            if isinstance(counters, PoolCounters):
                counters.give_back(device)

        if not satisfied:
            undo_checks()
            if tolerated and must:
                where = f"claim {self._planned[claim].claim.key}, request {alternative.name}"
                problem = f"cannot add device {'/'.join(device.id)}"
                raise AllocationError(f"{where}: {problem} because a claim constraint would not be satisfied")
            return None
        if not self._has_capacity(option, device):
            undo_checks()
            return None
        consumed = self._mark(claim, option, device)
        self._results[claim].append(Chosen(alternative, device, consumed))

        def undo() -> None:
            self._results[claim].pop()
            self._unmark(claim, device, consumed)
            undo_checks()

        return undo

    def _take_counters(self, device: DeviceInfo) -> PoolCounters | bool:
        """The counters that were taken from; True: none were needed; False: not enough are left."""
        in_use = device.id in self._shares or self._world.usage.is_shared(device.id)
        if not device.consumes or (device.shared and in_use):
            return True
        counters = self._counters.get(device.pool_id)
        if counters is None:
            pool = next(pool for pool in self._pools if pool.id == device.pool_id)
            counters = self._counters[device.pool_id] = PoolCounters(pool, self._world.usage)
        return counters if counters.take(device) else False

    def _mark(self, claim: int, option: _Option, device: DeviceInfo) -> Mapping[str, Amount] | None:
        if not device.shared:
            self._taken.setdefault(device.id, set()).add(claim)
            return None
        consumed = consumption(device.capacity, option.alternative.capacity)
        count, amounts = self._shares.get(device.id, (0, {}))
        total = {name: amounts.get(name, 0) + amount.nano for name, amount in consumed.items()}
        self._shares[device.id] = (count + 1, total)
        return consumed

    def _unmark(self, claim: int, device: DeviceInfo, consumed: Mapping[str, Amount] | None) -> None:
        if consumed is None:
            self._taken[device.id].remove(claim)
            return
        count, amounts = self._shares.pop(device.id)
        if count > 1:
            left = {name: amount - consumed[name].nano for name, amount in amounts.items()}
            self._shares[device.id] = (count - 1, left)


__all__ = [
    "AllocationError",
    "Chosen",
    "PlannedClaim",
    "Request",
    "Search",
    "SearchTime",
    "SearchTimeoutError",
    "Solution",
    "World",
]
