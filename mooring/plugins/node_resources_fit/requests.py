"""What a pod must find free on nodes, and which nodes lack what of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from mooring.framework.nodes import BoolArray, IntArray
from mooring.framework.status import Status, unresolvable, unschedulable
from mooring.plugins.resource_columns import lines_of
from mooring.runtime.amounts import ALLOWED_PODS, pods_line, wrap_int64
from mooring.runtime.engine_nodes import EngineNode, EngineNodes

Codes = npt.NDArray[np.int32]

TOO_MANY_PODS = "Too many pods"
MOST_BITS = 29  # for resources: a code has 31 bits, two of which say something else


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


class Refusals(dict[int, Status]):
    """Codes of refused rows and what they mean, decoded when someone asks.

    Bit 0: too many pods. Bit i + 1: too little of the i-th requested resource. The bit after those: the
    node would have too little even if it were empty, so that removing pods does not help. Where that are more
    bits than a code has, a code is the number of such a set.
    """

    __slots__ = ("_numbers", "_sets", "_wide", "names")

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names
        self._wide = len(names) > MOST_BITS
        self._sets = [0]
        self._numbers = {0: 0}

    def code(self, bits: int) -> int:
        if not self._wide:
            return bits
        number = self._numbers.setdefault(bits, len(self._sets))
        if number == len(self._sets):
            self._sets.append(bits)
        return number

    def __missing__(self, code: int) -> Status:
        bits = self._sets[code] if self._wide else code
        reasons = [TOO_MANY_PODS] if bits & 1 else []
        reasons += [insufficient(name) for i, name in enumerate(self.names) if bits >> i & 2]
        hopeless = bits >> len(self.names) & 2
        status = self[code] = unresolvable(*reasons) if hopeless else unschedulable(*reasons)
        return status


class Requests:
    """What a pod shape must find free on a node."""

    __slots__ = ("_comparison", "_resources", "amounts", "names", "optional", "refusals")

    def __init__(self, amounts: Mapping[str, int], optional: frozenset[str] = frozenset()) -> None:
        self.optional = optional  # what a node that has none of it may get devices for instead
        self.names = _in_order(amounts)
        self.amounts = [amounts[name] for name in self.names]
        self.refusals = Refusals(self.names)
        self._resources: Sequence[str] | None = None
        self._comparison: Comparison | None = None

    def comparison(self, resources: Sequence[str]) -> Comparison:
        """With nodes of a table that has lines for these resources."""
        comparison = self._comparison
        if comparison is None or self._resources is not resources:
            has_lines = len(self.names) <= MOST_BITS and set(self.names) <= set(resources)
            comparison = ByLine(self, resources) if has_lines else ByName(self)
            self._resources, self._comparison = resources, comparison
        return comparison


class Comparison(Protocol):
    def codes(self, nodes: EngineNodes) -> Codes | None:
        """The code of each row; None where all of them pass."""
        ...

    def code_of(self, node: EngineNode) -> int:
        """`codes` of one node: the one that the last pod went to is what is asked about most."""
        ...


class ByLine:
    """Of resources that have lines in the table."""

    __slots__ = ("_bits", "_each", "_hopeless", "_lines", "_optional", "_requests")

    def __init__(self, needed: Requests, resources: Sequence[str]) -> None:
        places = [1 + resources.index(name) for name in needed.names]
        bits = [2 << i for i in range(len(places))]
        self._lines = lines_of([ALLOWED_PODS, *places])  # of `Nodes.room`, and of what the nodes have
        self._requests: IntArray = np.array([1, *needed.amounts], np.int64).reshape(-1, 1)
        self._bits: IntArray = np.array([1, *bits], np.int64)
        self._each = [(ALLOWED_PODS, 1, 1), *zip(places, needed.amounts, bits, strict=True)]
        self._hopeless = 2 << len(places)
        self._optional = [1 + i for i, name in enumerate(needed.names) if name in needed.optional]

    def codes(self, nodes: EngineNodes) -> Codes | None:
        room = nodes.room
        if room.size:
            lowest = room.argmin(axis=1).tolist()
            for line, amount, _ in self._each:
                if room.item(line, lowest[line]) < amount:
                    break
            else:  # even the rows with the least room have enough
                return None
        short = room[self._lines] < self._requests
        offered = nodes.amounts[self._lines]
        for i in self._optional:
            short[i] &= offered[i] > 0
        hopeless = (short & (offered < self._requests))[1:].any(axis=0)
        codes: IntArray = self._bits @ short + hopeless * self._hopeless
        return codes.astype(np.int32)

    def code_of(self, node: EngineNode) -> int:
        amounts = node.amounts
        taken = pods_line(len(amounts))
        code = 0
        for i, (place, amount, bit) in enumerate(self._each):
            available = amounts[place]
            if not available and i in self._optional:
                continue
            if wrap_int64(available - amounts[taken + place]) < amount:
                code |= bit
                if place and available < amount:
                    code |= self._hopeless
        return code


class ByName:
    """Of any resources, and any number of them."""

    __slots__ = ("_each", "_refusals")

    CHUNK = 1024  # lines of bits at a time: a multiple of 8

    def __init__(self, needed: Requests) -> None:
        names = zip(needed.names, needed.amounts, strict=True)
        self._each = [(name, amount, name in needed.optional) for name, amount in names]
        self._refusals = needed.refusals

    def codes(self, nodes: EngineNodes) -> Codes | None:
        lines, chunks = self._lines(nodes), []
        while chunk := list(islice(lines, self.CHUNK)):
            chunks.append(np.packbits(np.stack(chunk), axis=0, bitorder="little"))
        rows = np.ascontiguousarray(np.concatenate(chunks).T)
        code, width = self._refusals.code, rows.shape[1]
        bits = rows.tobytes()
        sets = [bits[start : start + width] for start in range(0, len(bits), width)]
        numbers = {each: code(int.from_bytes(each, "little")) for each in dict.fromkeys(sets)}
        codes = np.array([numbers[each] for each in sets], np.int32)
        return codes if codes.any() else None

    def _lines(self, nodes: EngineNodes) -> Iterator[BoolArray]:
        """The bits of a code, one line each."""
        free, offered = nodes.free, nodes.allocatable
        hopeless = np.zeros(len(nodes), np.bool_)
        yield nodes.allowed_pods - nodes.pod_count < 1
        for name, amount, optional in self._each:
            has = offered[name]
            short = free[name] < amount
            if optional:
                short &= has > 0
            hopeless |= short & (has < amount)
            yield short
        yield hopeless

    def code_of(self, node: EngineNode) -> int:
        free, offered = node.free, node.allocatable
        bits = [wrap_int64(node.allowed_pods - node.pod_count) < 1]
        hopeless = False
        for name, amount, optional in self._each:
            has = offered[name]
            short = free[name] < amount and not (optional and not has)
            hopeless |= short and has < amount
            bits.append(short)
        bits.append(hopeless)
        return self._refusals.code(int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little"))


def _in_order(amounts: Mapping[str, int]) -> list[str]:
    """The names in the order in which reasons are given."""
    first = [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if name in amounts]
    return first + sorted(amounts.keys() - set(first))
