"""On which nodes claims can be allocated: answered once, then only where devices or nodes changed.

Claims that ask for the same share the answer. The devices themselves are worked out for the node that is
chosen; the answer says no more than that there are some.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.devices import DeviceClass
from mooring.framework.nodes import NodeInfo, Verdicts
from mooring.framework.status import Status
from mooring.plugins.dynamic_resources.device_selectors import SelectorInput
from mooring.plugins.dynamic_resources.inventory import Inventory, NodeDevices
from mooring.plugins.dynamic_resources.plan import expressions
from mooring.plugins.dynamic_resources.search import (
    AllocationError,
    PlannedClaim,
    Search,
    SearchTime,
    SearchTimeoutError,
    Solution,
    World,
)
from mooring.runtime.engine_nodes import EngineNodes, Mark

PASSES, NO_SOLUTION, INVALID_POOLS, FAILS = range(4)

Codes = npt.NDArray[np.int32]


class DeviceVerdicts:
    """The answers for claims that ask for the same, by row of the node table."""

    def __init__(self, world: World, inventory: Inventory, planned: Sequence[PlannedClaim]) -> None:
        self._world = world
        self._inventory = inventory
        self._simple = _Simple.of(planned, world)
        self._mark: Mark | None = None
        self._position = 0
        self._solutions: dict[int, Solution] = {}
        self._answer: Verdicts | None = None
        self.codes: Codes = np.zeros(0, np.int32)
        self.errors: dict[int, str] = {}  # of the rows that fail

    def refresh(self, nodes: EngineNodes, planned: Sequence[PlannedClaim], time: SearchTime) -> Codes:
        """Bring the codes up to date; the same array as last time where none changed."""
        mark, position = nodes.mark, self._inventory.position
        rows = self._stale(nodes, mark)
        self._mark, self._position = mark, position
        changed: dict[int, int] = {}
        reachable = self._inventory.rows(nodes) if rows else ()
        for row in rows:
            self._solutions.pop(row, None)
            self.errors.pop(row, None)
            code = self._quick(reachable[row])
            if code is None:
                code = self._evaluate(row, nodes[row], planned, time)
            if code != self.codes.item(row):
                changed[row] = code
        if changed:
            self.codes = self.codes.copy()
            self.codes[list(changed)] = list(changed.values())
        return self.codes

    def _stale(self, nodes: EngineNodes, mark: Mark) -> Collection[int]:
        if self._mark is not None and self._mark.length == mark.length:
            node_rows, _ = nodes.changed_since(self._mark)
            names = self._inventory.since(self._position)
            if node_rows is not None and names is not None:
                rows = {row for name in names if (row := nodes.index(name)) is not None}
                # What fails names the claim that it failed for.
                return rows.union(node_rows, self.errors)
        self._solutions.clear()
        self.errors.clear()
        self.codes = np.zeros(len(nodes), np.int32)
        return range(len(nodes))

    def _quick(self, reachable: NodeDevices) -> int | None:
        """The code of a row where counting devices is enough."""
        if self._simple is None or not reachable.plain:
            return None
        fits = self._simple.fits(reachable)
        return None if fits is None else PASSES if fits else NO_SOLUTION

    def _evaluate(
        self,
        row: int,
        node: NodeInfo,
        planned: Sequence[PlannedClaim],
        time: SearchTime,
    ) -> int:
        reachable = self._inventory.of(node)
        try:
            solution = Search(self._world, node, reachable, planned, time.start()).solve()
        except AllocationError as error:
            self.errors[row] = str(error)
            return FAILS
        except SearchTimeoutError:
            self.errors[row] = f"node {node.name}: timed out trying to allocate devices"
            return FAILS
        if solution is None:
            return INVALID_POOLS if reachable.invalid else NO_SOLUTION
        self._solutions[row] = solution
        return PASSES

    def answer(self, statuses: Mapping[int, Status]) -> Verdicts | None:
        """The codes as a filter's answer: the same object as long as they are the same."""
        if self._answer is None or self._answer.codes is not self.codes:
            self._answer = Verdicts(self.codes, statuses)
        return self._answer if self.codes.any() else None

    def solution(self, row: int, node: NodeInfo, planned: Sequence[PlannedClaim]) -> Solution | None:
        """The devices on a node that passes."""
        solution = self._solutions.get(row)
        if solution is None and self.codes.item(row) == PASSES:
            solution = Search(self._world, node, self._inventory.of(node), planned).solve()
            if solution is not None:
                self._solutions[row] = solution
        return solution


class _Simple:
    """One request for some devices by selectors alone: there must be that many free ones."""

    def __init__(self, count: int, expressions: tuple[str, ...], world: World) -> None:
        self._count = count
        self._expressions = expressions
        self._world = world
        self._selected: dict[SelectorInput, bool | str] = {}

    @classmethod
    def of(cls, planned: Sequence[PlannedClaim], world: World) -> _Simple | None:
        if len(planned) != 1 or not planned[0].plan.simple:
            return None
        alternative = planned[0].plan.requests[0].alternatives[0]
        entry = world.device_class(alternative.class_name)
        if entry is None or alternative.count > 32 or alternative.mode != "ExactCount":
            return None
        return cls(alternative.count, expressions(entry.spec.selectors) + alternative.expressions, world)

    def fits(self, reachable: NodeDevices) -> bool | None:
        """Whether there are enough; None where a selector fails, which may or may not matter."""
        left, in_use, selected = self._count, self._world.usage.exclusive, self._selected
        if left <= 0:
            return True
        for device in reachable.devices:
            if device.id in in_use:
                continue
            verdict = selected.get(device.input)
            if verdict is None:
                _, verdict = self._world.selectors.all_match(self._expressions, device.input)
                selected[device.input] = verdict
            if verdict is True:
                left -= 1
                if not left:
                    return True
            elif verdict is not False:
                return None
        return False


class VerdictCache:
    """The verdicts in use, by what claims ask for. The oldest make room."""

    LIMIT = 1024

    def __init__(self, world: World, inventory: Inventory) -> None:
        self._world = world
        self._inventory = inventory
        self._known: dict[tuple[object, ...], tuple[DeviceVerdicts, object]] = {}

    def of(self, planned: Sequence[PlannedClaim]) -> DeviceVerdicts:
        plans = [each.plan for each in planned]
        classes = [self._class(a.class_name) for plan in plans for r in plan.requests for a in r.alternatives]
        key = (*map(id, plans), *map(id, classes))
        entry = self._known.pop(key, None)
        if entry is None:
            entry = (
                DeviceVerdicts(self._world, self._inventory, planned),
                (plans, classes),
            )  # which keeps the ids
            while len(self._known) >= self.LIMIT:
                del self._known[next(iter(self._known))]
        self._known[key] = entry
        return entry[0]

    def _class(self, name: str) -> DeviceClass | None:
        return self._world.device_class(name)
