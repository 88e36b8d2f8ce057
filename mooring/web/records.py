"""The records of the JSON API that no other part of Mooring has. Explanations and decisions are those of
`mooring explain -o json`."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.explain.explanation import Waiting

API = "v1"


class Record(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Fields at their default are omitted."""


class Meta(Record):
    """What is served, and what the page can do with it."""

    api: str
    version: str
    epoch: str  # of this process
    mode: str  # sandbox, scheduler, file or run
    now: str
    features: list[str] = []
    status: str = ""
    profiles: list[str] = []


class Labels(Record):
    """One label of all nodes: an index into the values, or -1."""

    values: list[str]
    of: list[int]


class PodKind(Record):
    """Pods of one namespace, owner, priority and size."""

    namespace: str
    owner: str = ""
    priority: int = 0
    amounts: list[int] = []  # in the order of the resources


class NodeColumns(Record):
    """Nodes in columns. Amounts are in base units, cpu in thousandths."""

    resources: list[str]
    names: list[str]
    flags: list[int]  # 1 not ready, 2 cordoned, 4 tainted, 8 failed on purpose
    allocatable: list[list[int]]  # by resource, then by node
    requested: list[list[int]]
    pods_allowed: list[int]
    pod_counts: list[int]
    labels: dict[str, Labels] = {}
    kinds: list[PodKind] = []
    pods: list[int] = []  # the kind of every pod, node after node


class Counts(Record, omit_defaults=False):
    """Pods by where they are."""

    placed: int = 0
    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gated: int = 0
    permit: int = 0
    binding: int = 0


class ClusterRecord(Record):
    """All nodes and the number of pods."""

    as_of: str
    nodes: NodeColumns
    counts: Counts


class DecisionRow(Record):
    """One attempt in the list of decisions."""

    seq: int
    at: str
    pod: str
    result: str
    summary: str
    node: str = ""
    attempts: int = 0
    profile: str = ""
    plugins: list[str] = []  # that rejected the pod
    victims: list[str] = []
    priority: int = 0  # of the pod; only where it has victims
    victim_priorities: list[int] = []


class DecisionRows(Record):
    """Recent attempts, the latest first. `before` continues the list."""

    as_of: str
    decisions: list[DecisionRow]
    kept: int  # how many are kept at most
    before: int = 0


class QueuedPod(Record):
    """One pending pod: where it is in the queue, and the reason of its last attempt."""

    pod: str
    state: str  # active, backoff, unschedulable, gated, permit, binding
    waiting: Waiting
    priority: int = 0
    owner: str = ""
    reason: str = ""
    message: str = ""
    group: str = ""  # the PodGroup that it is scheduled with, as "namespace/name"


class QueuedGroup(Record):
    """A PodGroup with pending members: how many pods it needs, and what its last attempt came to."""

    group: str
    members: int = 0  # pods that exist, pending or not
    pending: int = 0
    scheduled: int = 0  # have a node
    min_count: int | None = None  # none for the basic policy
    missing: bool = False  # there is no such PodGroup
    topology: str = ""  # the node label whose value all members must share
    priority: int = 0
    message: str = ""  # of the condition PodGroupScheduled


class QueueRecord(Record):
    """Pending pods, those that wait longest first; members of a group follow one another."""

    as_of: str
    counts: Counts
    pods: list[QueuedPod]
    groups: list[QueuedGroup] = []  # of these pods
    reasons: list[tuple[str, int]] = []
    total: int = 0  # that match the filter
    status: str = ""


class PodRow(Record):
    """One pod of a node or of a search."""

    pod: str
    node: str = ""
    phase: str = ""
    priority: int = 0
    owner: str = ""
    requests: dict[str, int] = {}


class PodRows(Record):
    """Search results."""

    pods: list[PodRow]
    nodes: list[str] = []


class NodeRecord(Record):
    """One node with its pods."""

    node: str
    as_of: str
    ready: bool
    cordoned: bool = False
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[str] = []
    conditions: list[str] = []
    allocatable: dict[str, int] = {}
    requested: dict[str, int] = {}
    pods_allowed: int = 0
    pods: list[PodRow] = []
    nominated: list[str] = []
    history: list[DecisionRow] = []


class TableColumn(Record):
    """One plugin: its verdict on every node, or its score."""

    plugin: str
    codes: list[int]  # 0 passes; else an index into the reasons, from 1
    reasons: list[str] = []


class ScoreColumn(Record):
    """The scores that one plugin gave the nodes that fit; None where a node does not fit."""

    plugin: str
    weight: int
    raw: list[int | None]
    weighted: list[int | None]


class PodTable(Record):
    """Every filter's verdict and every score, by node."""

    pod: str
    as_of: str
    basis: str  # evaluated: from the cluster as it is now, as if the pod had no node
    nodes: list[str]
    filters: list[TableColumn]
    scores: list[ScoreColumn]
    total: list[int | None]
    chosen: str = ""
    error: str = ""


class Moved(Record):
    """One pod now and under the changed assumptions."""

    pod: str
    now: str = ""  # a node; empty: pending
    then: str = ""
    why: str = ""
    result: str = "same"  # same, new, moved, scheduled, pending, evicted


class WhatIfResult(Record):
    """Where pods would go."""

    changes: int
    seconds: float
    nodes: int
    pods: list[Moved]
    counts: dict[str, int]
    warnings: list[str] = []


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
