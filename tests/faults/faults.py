"""Faults from a seed: what fails, when, for which process, and for how long."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kinds of faults. Those of requests strike some of them while the fault lasts."""

    TOO_MANY = "requests are answered with 429"
    INTERNAL = "requests are answered with 500"
    UNAVAILABLE = "requests are answered with 503"
    CONFLICT = "writes are answered with 409"
    NO_REQUEST = "requests are lost"
    NO_ANSWER = "answers are lost after the effect"
    LATE = "requests take effect after the client has given up"
    SLOW = "requests and watches are slow"
    CUT = "watches are cut"
    GONE = "watches end with 410"
    SILENT = "watches fall silent"
    STALL = "watches are delayed"
    STALL_PODS = "watches of pods are delayed"
    STALL_NODES = "watches of nodes are delayed"
    NO_BOOKMARKS = "bookmarks are missing"
    CRASH = "the process is killed and started again"
    PAUSE = "the process is paused"
    CLOCK = "the clock of the leader is set"
    NODE_FAIL = "a node fails and recovers"
    NODE_DELETE = "a node is deleted and created again"
    POD_DELETE = "pods are deleted"
    REPLACE = "pods are replaced by others of the same name while they are being bound"
    LOSE_LEASE = "the leader's requests about its lease are lost until it no longer leads"
    ZOMBIE = "the leader is paused between two bindings for longer than its lease"
    HANDOVER = "the leader is killed between two bindings while the others' watches are behind"
    BLOCK = "attempts take long"
    PLUGIN = "a plugin raises, rejects, waits or answers nonsense"
    EXTENDER = "an extender hangs, lies or answers garbage"
    SERVER_CRASH = "the API server is killed and started again"
    TORN = "the API server is killed in the middle of a write"
    DISK_FULL = "the API server's disk is full"


REQUESTS = frozenset(
    {
        Kind.TOO_MANY,
        Kind.INTERNAL,
        Kind.UNAVAILABLE,
        Kind.CONFLICT,
        Kind.NO_REQUEST,
        Kind.LOSE_LEASE,
        Kind.NO_ANSWER,
        Kind.LATE,
    }
)
_STALLED = {Kind.STALL: None, Kind.STALL_PODS: "pods", Kind.STALL_NODES: "nodes"}
_VERBS = {
    Kind.CONFLICT: frozenset({"create", "post", "update", "patch", "delete"}),
    Kind.LATE: frozenset({"post"}),
}
RATED = frozenset({Kind.BLOCK, Kind.PLUGIN, Kind.EXTENDER, Kind.REPLACE, Kind.POD_DELETE})
OF_THE_DISK = frozenset({Kind.SERVER_CRASH, Kind.TORN, Kind.DISK_FULL})
OF_THREADS = (Kind.BLOCK, Kind.BLOCK, Kind.BLOCK)
"""Kinds that have no effect on virtual time."""
OF_LEADERS = frozenset({Kind.LOSE_LEASE, Kind.ZOMBIE, Kind.HANDOVER})
CLUSTER_WIDE = frozenset(
    {
        Kind.NODE_FAIL,
        Kind.NODE_DELETE,
        Kind.POD_DELETE,
        Kind.CLOCK,
        Kind.LOSE_LEASE,
        Kind.ZOMBIE,
        Kind.HANDOVER,
        *OF_THE_DISK,
    }
)


THEMES: tuple[tuple[Kind, ...], ...] = (
    (),  # any kinds
    (),
    (Kind.PAUSE, Kind.CRASH, Kind.STALL_PODS, Kind.SILENT),  # leaders change while watches are behind
    (Kind.PAUSE, Kind.POD_DELETE, Kind.CUT),
    (Kind.NO_ANSWER, Kind.NO_REQUEST, Kind.STALL_PODS, Kind.CRASH),
    (Kind.NODE_DELETE, Kind.NODE_FAIL, Kind.GONE, Kind.CUT),
    (Kind.SERVER_CRASH, Kind.TORN, Kind.DISK_FULL, Kind.CRASH),
    (Kind.PLUGIN, Kind.POD_DELETE, Kind.NODE_DELETE),
    (Kind.NO_ANSWER, Kind.LATE, Kind.STALL_PODS),  # what took effect is known late
    (Kind.REPLACE, Kind.POD_DELETE, Kind.LATE),
    (Kind.HANDOVER, Kind.ZOMBIE),
    (Kind.ZOMBIE,),
    (Kind.LOSE_LEASE, Kind.LATE),
    (Kind.EXTENDER, Kind.PLUGIN, Kind.NODE_DELETE),
    (Kind.CLOCK, Kind.PLUGIN),
    (Kind.SLOW, Kind.PLUGIN, Kind.NODE_FAIL),  # many failures are written while pods are bound after all
)
"""Kinds that happen together in a run, so that they meet."""


class Fault:
    """One fault. Its random choices are its own, so that leaving out another changes none of them."""

    def __init__(
        self, number: int, kind: Kind, at: float, lasts: float, target: str, rate: float, seed: int
    ) -> None:
        self.number = number
        self.kind = kind
        self.at = at  # seconds since the start of the run
        self.lasts = lasts
        self.target = target  # a process
        self.rate = rate
        self.ends = 0.0  # by the loop's time, once it has begun
        self.random = random.Random(f"{seed} fault {number}")

    def meets(self, verb: str, what: str) -> bool:
        if self.kind is Kind.LOSE_LEASE:
            return what.startswith("leases")
        if self.kind not in REQUESTS or (self.kind in _VERBS and verb not in _VERBS[self.kind]):
            return False
        return self.random.random() < self.rate

    def stalls(self, plural: str, obj: Any) -> bool:
        """Whether a watch shows neither this change nor any later one while the fault lasts."""
        if self.kind is Kind.HANDOVER:
            return plural == "pods" and obj is not None and bool(obj.spec.node_name)
        return self.kind in _STALLED and _STALLED[self.kind] in (None, plural)

    def __str__(self) -> str:
        where = "" if self.kind in CLUSTER_WIDE else f" ({self.target})"
        rate = f", rate {self.rate:.2f}" if self.kind in REQUESTS or self.kind in RATED else ""
        return f"#{self.number} at {self.at:.1f} s for {self.lasts:.1f} s: {self.kind}{where}{rate}"


def draw_faults(
    seed: int, targets: Sequence[str], theme: Sequence[Kind], kinds: Sequence[Kind], until: float
) -> list[Fault]:
    """Return the faults of a run, by time: of its theme, or else of some of the kinds."""
    chance = random.Random(f"{seed} faults")
    favourites = theme or chance.sample(kinds, k=chance.randint(1, len(kinds)))
    every = chance.choice((1.0, 3.0, 8.0, 20.0))  # seconds between two of them, on average
    longest = chance.choice((5.0, 20.0, 60.0))
    faults: list[Fault] = []
    at = chance.expovariate(1 / every)
    while at < until:
        kind, target = chance.choice(favourites), chance.choice(targets)
        lasts, rate = chance.uniform(0.1, longest), chance.choice((0.02, 0.1, 0.3, 1.0))
        faults.append(Fault(len(faults), kind, at, lasts, target, rate, seed))
        at += chance.expovariate(1 / every)
    return faults
