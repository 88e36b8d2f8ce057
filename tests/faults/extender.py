"""An extender in the same process, which hangs, lies and answers garbage when a fault says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from mooring.extender.calling.connections import ExchangeError
from mooring.process.aside import Aside
from tests.faults.faults import Fault, Kind
from tests.faults.processes import Process

T = TypeVar("T")

HANGS = 5.0  # seconds until the scheduler gives up waiting for the extender
LONGEST_NAME = "x" * 5000
GARBAGE = (b"", b"\xff\xfe", b"null", b"[]", b"{", b'{"NodeNames": 7}', b"[" * 5000, b'[{"Host": "node-0"}]')


def configuration(ignorable: bool) -> dict[str, Any]:
    """Return how the scheduler calls the extender."""
    return {
        "urlPrefix": "http://extender.example",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": ignorable,
    }


class UnreliableExtender:
    """Stands in for the connections to an extender, which lets every node pass while no fault acts."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def fault(self) -> Fault | None:
        for fault in self._process.faults:
            if fault.kind is Kind.EXTENDER and fault.random.random() < fault.rate:
                return fault
        return None

    def post(self, verb: str, body: Sequence[bytes], timeout: float, *, again: bool) -> tuple[int, bytes]:
        args = msgspec.json.decode(b"".join(body))
        answer = _honest(verb, args)
        fault = self.fault()
        if fault is not None:
            what = fault.random.choice(("error", "unreachable", "garbage", "lie", "lie"))
            if what == "error":
                return 500, b"internal error"
            if what == "unreachable":
                raise ExchangeError("connection reset by peer")
            if what == "garbage":
                return 200, fault.random.choice(GARBAGE)
            answer = _lie(verb, answer, fault)
        return 200, msgspec.json.encode(answer)

    def close(self) -> None:
        """Nothing to close."""


def _honest(verb: str, args: dict[str, Any]) -> Any:
    if verb == "filter":
        return {"NodeNames": args["NodeNames"]}
    if verb == "prioritize":
        return [{"Host": name, "Score": 1} for name in args["NodeNames"]]
    return {"NodeNameToMetaVictims": args["NodeNameToMetaVictims"]}


def _lie(verb: str, answer: Any, fault: Fault) -> Any:
    chance = fault.random
    if verb == "filter":
        names = answer["NodeNames"]
        reasons = dict.fromkeys(names, chance.choice(("no", LONGEST_NAME)))
        return chance.choice(
            (
                {"NodeNames": []},
                {"NodeNames": [*names, "unknown"]},
                {"NodeNames": names + names},
                {"NodeNames": names[:1], "FailedNodes": reasons},
                {"FailedAndUnresolvableNodes": reasons},
                {"NodeNames": names, "Error": "no"},
            )
        )
    if verb == "prioritize":
        return [{**each, "Score": chance.choice((-1, 11, 2**62, -(2**63)))} for each in answer]
    victims = answer["NodeNameToMetaVictims"]
    return {
        "NodeNameToMetaVictims": chance.choice(({}, {"unknown": {"Pods": [{"UID": "x"}]}}, _others(victims)))
    }


def _others(victims: dict[str, Any]) -> dict[str, Any]:
    """The victims of the nodes, each on the node of another."""
    names = list(victims)
    return {name: victims[other] for name, other in zip(names, names[1:] + names[:1], strict=True)}


class AsideInline(Aside):
    """Runs the core's work on the loop, for threads would decide what happens first. While the extender
    hangs, it lasts in virtual time."""

    def __init__(self, extender: UnreliableExtender) -> None:
        super().__init__()
        self._extender = extender

    async def run(self, work: Callable[[], T]) -> T:
        while self._busy:
            await asyncio.sleep(0.001)
        self._busy = True
        try:
            fault = self._extender.fault()
            if fault is not None:
                await asyncio.sleep(fault.random.uniform(0.0, HANGS))
            return work()
        finally:
            self._make_up()
            self._be_at_rest()
