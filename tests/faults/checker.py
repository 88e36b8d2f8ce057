"""The invariants, checked on the API's history alone.

The checker shares no code with the scheduler: it reads committed writes, what clients sent and were
answered, and what watches delivered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from mooring.api.objects import Pod as ApiPod
from mooring.client.port import Change
from tests.faults.attachments import Attachments
from tests.faults.gangs import TABLE, Gangs
from tests.faults.history import Entry, History
from tests.faults.pods import FINISHED, Pod, amount
from tests.faults.quotas import Quotas
from tests.faults.reports import Reports

Tree = dict[str, Any]

RESIZE_SEEN = 120.0  # seconds after which a scheduler that can bind has seen a resize
LEASE = "kube-system/kube-scheduler"


class Violation(NamedTuple):
    """An invariant that did not hold."""

    invariant: str
    time: float
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message} (at {self.time:.6f})"


class Checker:
    """Follows the history and collects violations."""

    def __init__(self, clock: Callable[[], float], replicas: Iterable[str]) -> None:
        self.violations: list[Violation] = []
        self.pods: dict[str, Pod] = {}  # by key
        self.nodes: dict[str, Tree] = {}
        self.budgets: dict[str, Tree] = {}
        self.quotas = Quotas()
        self.gangs = Gangs()
        self._attachments = Attachments()
        self._reports = Reports()
        self.leader = ""
        self.bound = 0
        self.evicting = ""  # the pod that a user is evicting
        self._top_priority = 0
        self._resized: dict[str, float] = {}  # when a pod of a node was resized
        self.history: History
        self._clock = clock
        self._replicas = tuple(replicas)
        self._shown: dict[str, set[str]] = {}  # uids of the pods that each replica has seen
        self._sent: set[tuple[str, str, str, str]] = set()  # bindings: client, pod, uid, node
        self._answered: set[str] = set()  # uids of the pods of which a binding was acknowledged
        self._tables: dict[str, tuple[list[int], list[Entry]]] = {}
        self._handlers: dict[str, Callable[[Entry, Tree | None], None]] = {
            "pods": self._pod,
            "nodes": self._node,
            "leases.coordination.k8s.io": self._lease,
            "poddisruptionbudgets.policy": self._budget,
            "events": self._event,
            "resourcequotas": self.quotas.changed,
            TABLE: self.gangs.changed,
            **dict.fromkeys(self._attachments.tables, self._attachments.changed),
        }

    def violate(self, invariant: str, message: str) -> None:
        self.violations.append(Violation(invariant, self._clock(), message))

    # ---- committed writes

    def saw(self, entry: Entry) -> None:
        versions, entries = self._tables.setdefault(entry.table, ([], []))
        if versions and entry.version <= versions[-1]:
            self.violate("versions grow", f"{entry.table} {entry.key}: {entry.version} after {versions[-1]}")
        versions.append(entry.version)
        entries.append(entry)
        handler = self._handlers.get(entry.table)
        if handler is not None:
            handler(entry, None if entry.type == "DELETED" else entry.tree)

    def _lease(self, entry: Entry, tree: Tree | None) -> None:
        if entry.key == LEASE:
            self.leader = "" if tree is None else tree["spec"].get("holderIdentity") or ""

    def _node(self, entry: Entry, tree: Tree | None) -> None:
        if tree is None:
            del self.nodes[entry.key]
        else:
            self.nodes[entry.key] = tree

    def _budget(self, entry: Entry, tree: Tree | None) -> None:
        if tree is None:
            del self.budgets[entry.key]
        else:
            self.budgets[entry.key] = tree

    def _event(self, entry: Entry, tree: Tree | None) -> None:
        for problem in () if tree is None else self._reports.problems_of(entry, tree):
            self.violate("events are true", problem)

    def _pod(self, entry: Entry, tree: Tree | None) -> None:
        before = self.pods.get(entry.key)
        if before is not None and not before.terminating and _is_deletion(tree):
            self._deleted(entry, before)
        if before is not None and before.node and (tree is None or Pod(tree).is_over):
            self.gangs.left(before)
        if tree is None:
            if before is not None and not before.node:
                self.gangs.deleted(before)
            del self.pods[entry.key]
            return
        pod = self.pods[entry.key] = Pod(tree)
        self._top_priority = max(self._top_priority, pod.priority)
        if before is None:
            for invariant, problem in self.quotas.problems_of(entry, pod):
                self.violate(invariant, problem)
        if before is not None and before.uid != pod.uid:
            self.violate("objects keep their uid", f"pod {pod.key}: {before.uid} became {pod.uid}")
        elif before is not None and before.node == pod.node and pod.node:
            self._changed_on_node(before, pod)
        elif before is not None and before.node and before.node != pod.node:
            self.violate(
                "a pod is bound once", f"pod {pod.key} moved from {before.node} to {pod.node or 'none'}"
            )
        elif pod.node and before is not None and not before.node:
            self._bound(entry, before, pod)
        if pod.node and (pod.tree.get("status") or {}).get("nominatedNodeName"):
            self.violate("nominations end with the binding", f"pod {pod.key} is on {pod.node}")
        scheduled = pod.conditions.get("PodScheduled")
        if pod.node and scheduled is not None and scheduled["status"] != "True":
            self.violate(
                "conditions agree with the binding",
                f"{entry.client} wrote PodScheduled={scheduled['status']} "
                f"({scheduled.get('reason')}) on pod {pod.key}, which is on {pod.node}",
            )

    def _changed_on_node(self, before: Pod, pod: Pod) -> None:
        """A pod has changed on its node; a kubelet may have allocated other resources."""
        if pod.requests != before.requests:
            self._resized[pod.node] = self._clock()
        if pod.allocated > before.allocated > 0.0 and (node := self.nodes.get(pod.node)) is not None:
            total = round(sum(other.allocated for other in self.on(pod.node)), 3)
            if total > amount(node["status"]["allocatable"]["cpu"]):
                self.violate("only resources that are free are allocated", f"{pod.node}: {total:g} CPUs")

    def _deleted(self, entry: Entry, pod: Pod) -> None:
        """A pod is deleted, with or without a grace period."""
        self._reports.deleted(pod)
        if entry.client.startswith("scheduler"):
            if self._replicas and entry.client != self.leader:
                self.violate("only the leader preempts", f"{entry.client} deleted pod {pod.key}")
            if pod.priority >= self._top_priority:
                self.violate(
                    "only less important pods are preempted", f"{entry.client} deleted pod {pod.key}"
                )
        if self.evicting != pod.key or not pod.ready:
            return
        for budget in self.budgets.values():
            wanted = budget["spec"]["selector"]["matchLabels"]
            if any(pod.labels.get(key) != value for key, value in wanted.items()):
                continue
            if pod.key.split("/")[1] not in (budget.get("status") or {}).get("disruptedPods", ()):
                name = budget["metadata"]["name"]
                self.violate("evictions respect budgets", f"pod {pod.key}: not counted in budget {name}")

    def _bound(self, entry: Entry, before: Pod, pod: Pod) -> None:
        self.bound += 1
        self._reports.bound(pod, entry.time)
        who = entry.client
        if not who.startswith("scheduler"):
            return
        if self._replicas and who != self.leader:
            self.violate(
                "only the leader binds", f"{who} bound pod {pod.key}, but {self.leader or 'none'} leads"
            )
        if pod.gated:
            self.violate("gated pods are not bound", f"pod {pod.key} is on {pod.node}")
        if before.terminating:
            self.violate("deleted pods are not bound", f"pod {pod.key} is on {pod.node}")
        if pod.spec.get("schedulerName") != "default-scheduler":
            self.violate("pods of other schedulers are not bound", f"pod {pod.key} is on {pod.node}")
        if not any((who, pod.key, uid, pod.node) in self._sent for uid in (pod.uid, "")):
            self.violate("bindings are what was sent", f"{who}: pod {pod.key} is on {pod.node}")
        if pod.uid not in self._shown.get(who, ()):
            self.violate("only pods that were seen are bound", f"{who}: pod {pod.key} with uid {pod.uid}")
        node = self.nodes.get(pod.node)
        if node is not None:
            self._fits(node, pod)
        placed = [other for other in self.pods.values() if other.node and not other.finished]
        for invariant, problem in self._attachments.problems_of(pod, placed):
            self.violate(invariant, problem)

    def on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == node and not pod.finished]

    def _fits(self, node: Tree, bound: Pod) -> None:
        name, allocatable = node["metadata"]["name"], node["status"]["allocatable"]
        pods = self.on(name)
        for resource in bound.requests:
            if self._clock() - self._resized.get(name, -RESIZE_SEEN) < RESIZE_SEEN:
                break  # the scheduler may not have seen it when it chose the node
            total = round(sum(pod.requests.get(resource, 0.0) for pod in pods), 3)
            if bound.requests[resource] and total > amount(allocatable.get(resource, 0)):
                self.violate(
                    "no node is over-committed",
                    f"{name}: {resource} {total:g} of {allocatable.get(resource, 0)} after pod {bound.key}",
                )
        for pod in pods:
            if pod is not bound and pod.ports & bound.ports:
                self.violate(
                    "no host port is taken twice",
                    f"{name}: {pod.key} and {bound.key}: {pod.ports & bound.ports}",
                )

    # ---- what clients sent and were answered

    def showed(self, client: str, objects: Iterable[Any]) -> None:
        """A list or a watch of a client showed objects."""
        if client.startswith("scheduler"):
            shown = self._shown.setdefault(client, set())
            shown.update(obj.metadata.uid for obj in objects if isinstance(obj, ApiPod))

    def listed(self, client: str, table: str, version: int) -> None:
        """A list of a client has a version: a watch from there must miss nothing, also after a restart."""
        committed = self.history.entries[-1].version if self.history.entries else 1
        if version > committed:
            self.violate(
                "lists are of what is committed", f"{client}: {table} at {version}, after {committed}"
            )

    def binding(self, client: str, body: Any) -> None:
        """A binding of a client arrives at the server."""
        self._sent.add((client, _key(body.metadata), body.metadata.uid, body.target.name))
        self.gangs.binds(body.metadata.uid)

    def acknowledged_binding(self, body: Any) -> None:
        """The server answers that a pod is bound, by this request."""
        key, target = _key(body.metadata), body.target.name
        pod = self.pods.get(key)
        if pod is None or pod.uid != (body.metadata.uid or pod.uid):
            return  # it is deleted
        if pod.node != target:
            self.violate(
                "nothing acknowledged is lost",
                f"pod {key}: bound to {target}, but is on {pod.node or 'none'}",
            )
        if pod.uid in self._answered:
            self.violate("a pod is bound once", f"pod {key}: a second binding, to {target}, succeeded")
        self._answered.add(pod.uid)

    def acknowledged(self, table: str, obj: Any) -> None:
        """A client was answered with this object."""
        if table == "events.events.k8s.io":
            table = "events"
        metadata, key = obj.metadata, _key(obj.metadata)
        if int(metadata.resource_version) not in self.history.versions.get((table, key), ()):
            self.violate(
                "nothing acknowledged is lost",
                f"{table} {key}: version {metadata.resource_version} is unknown",
            )

    def updated(self, table: str, body: Any, obj: Any) -> None:
        """A client changed an object: the one that it had read, if it said which."""
        self.acknowledged(table, obj)
        tree = msgspec.to_builtins(body)
        sent = (tree.get("metadata") or {}).get("resourceVersion") if isinstance(tree, dict) else None
        if not sent:
            return
        key = _key(obj.metadata)
        versions = self.history.versions[table, key]
        at = versions.index(int(obj.metadata.resource_version))
        if versions[at] != int(sent) and (at == 0 or versions[at - 1] != int(sent)):
            self.violate(
                "no update is lost",
                f"{table} {key}: {sent} was replaced by {versions[at]}; all: {versions[-5:]}",
            )

    # ---- watches

    def follow(self, client: str, table: str, version: int, selector: str) -> Follower:
        return Follower(self, client, table, version, selector)

    def events(self, table: str) -> tuple[list[int], list[Entry]]:
        return self._tables.setdefault(table, ([], []))

    # ---- the end

    def state(self, table: str) -> dict[str, int]:
        """Return the version of every object that exists."""
        found: dict[str, int] = {}
        for entry in self.events(table)[1]:
            if entry.type == "DELETED":
                found.pop(entry.key, None)
            else:
                found[entry.key] = entry.version
        return found


class Follower:
    """Checks that a watch delivers every change, once and in order."""

    def __init__(self, checker: Checker, client: str, table: str, version: int, selector: str) -> None:
        self._checker = checker
        self._what = f"{client}'s watch of {table}"
        self._active_only = "status.phase!=Succeeded" in selector
        self._versions, self._entries = checker.events(table)
        self._at = bisect_right(self._versions, version)
        self._version = version
        if selector and not self._active_only:
            raise ValueError(f"unknown selector {selector!r}")

    def saw(self, change: Change[Any]) -> None:
        version = int(change.resource_version)
        if change.type == "BOOKMARK":
            self._skip_to(version)
            self._version = version
            return
        if version <= self._version:
            self._checker.violate("watches are in order", f"{self._what}: {version} after {self._version}")
            return
        self._skip_to(version - 1)
        if self._at >= len(self._entries) or self._entries[self._at].version != version:
            self._checker.violate(
                "watches are true", f"{self._what}: {change.type} at {version} is not in the history"
            )
            return
        self._version = version
        self._at += 1

    def _skip_to(self, version: int) -> None:
        """What the watch passes over must be outside its selection."""
        while self._at < len(self._entries) and self._versions[self._at] <= version:
            entry = self._entries[self._at]
            if not self._active_only or self._selected(entry):
                self._checker.violate(
                    "watches are complete",
                    f"{self._what}: {entry.type} {entry.key} at {entry.version} is missing",
                )
            self._at += 1

    def _selected(self, entry: Entry) -> bool:
        """Whether a watch of unfinished pods shows a change: before it or after it, the pod was one."""
        if entry.type != "DELETED" and not _is_finished(entry):
            return True
        for at in range(self._at - 1, -1, -1):
            before = self._entries[at]
            if before.key == entry.key:
                return before.type != "DELETED" and not _is_finished(before)
        return False


def _key(metadata: Any) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _is_deletion(tree: Tree | None) -> bool:
    return tree is None or "deletionTimestamp" in tree["metadata"]


def _is_finished(entry: Entry) -> bool:
    return (entry.tree.get("status") or {}).get("phase") in FINISHED
