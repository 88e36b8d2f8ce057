"""Cluster: what a test does with a cluster, however much of one it has.

    cluster.apply(make_pod("web"))          # or YAML, as for kubectl apply
    cluster.wait_scheduled()
    assert cluster.node_of("web") == "node-1"

There are two kinds. `make_cluster` has the scheduler and the objects it is given: the fastest, for tests of a
plugin. The `mooring_cluster` fixture has an API server, controllers and fake nodes, too: Deployments become
pods, pods run and end, nodes fail, claims are bound. Both run in virtual time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from mooring.api.counts import count
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import decisions as explain_pod
from mooring.explain.group_report import report_group
from mooring.explain.groups import explain_named_group
from mooring.explain.log import DecisionLog
from mooring.explain.report import report
from mooring.framework.plugin import Plugin
from mooring.testing.gangs import fail_bind, make_gang, require_gangs

P = TypeVar("P", bound=Plugin)
Manifest = str | Path | Mapping[str, Any] | KubeObject

STEP = 0.05  # seconds of virtual time between two checks of a condition


class Event(NamedTuple):
    """A Kubernetes event about an object ("pod/web" in `default`, else "pod/namespace/web")."""

    regarding: str
    type: str
    reason: str
    action: str
    note: str


class Cluster(ABC):
    """A cluster under test. Time stands still between calls.

    Objects are named as for kubectl: "deployment/web". Pods are named by the object, by "name" (in namespace
    default) or by "namespace/name".
    """

    decisions: list[Decision]
    """Every scheduling attempt so far, in order."""

    @property
    @abstractmethod
    def scheduler(self) -> Scheduler:
        """The scheduler: its profiles and plugins, its queue, its client."""

    # ---- objects

    @abstractmethod
    def apply(self, *manifests: Manifest) -> list[str]:
        """Create or update objects: YAML text, files, dictionaries or objects. Return what was done:
        "pod/web created"."""

    @abstractmethod
    def delete(self, *objects: str | KubeObject, namespace: str = "default") -> None:
        """Delete objects, each given as "kind/name" or as the object."""

    @abstractmethod
    def get(self, what: str, namespace: str = "default") -> dict[str, Any]:
        """Return an object, "kind/name", as `kubectl get -o json` shows it. Raises LookupError."""

    @abstractmethod
    def pods(self, selector: str = "", namespace: str = "") -> Sequence[Pod]:
        """Return the pods, sorted by namespace and name: of a label selector ("app=web"), of a namespace, or
        all."""

    @abstractmethod
    def events(self, what: str = "", namespace: str = "default") -> Sequence[Event]:
        """Return the events, or those about "kind/name", oldest first."""

    def pod(self, pod: Pod | str) -> Pod:
        """Return a pod as it is now. Raises LookupError."""
        key = pod_key(pod)
        for each in self.pods():
            if each.key == key:
                return each
        raise LookupError(f"pod {key} does not exist")

    def node_of(self, pod: Pod | str) -> str:
        """Return the node that a pod is bound to, or ""."""
        return self.pod(pod).spec.node_name

    # ---- groups

    def gang(self, name: str, size: int, *, min_count: int | None = None, **pod: Any) -> list[str]:
        """Create a PodGroup and so many pods, "name-0" and so on, of which `min_count` (default: all) start
        together or none. `pod` are arguments of make_pod. Return the names of the pods."""
        require_gangs(self.scheduler)
        group, pods = make_gang(name, size, size if min_count is None else min_count, **pod)
        self.apply(group, *pods)
        return [each.name for each in pods]

    def fail_bind(self, pod: Pod | str, *, times: int = 1, error: Exception | None = None) -> list[float]:
        """Have the next binding requests of a pod fail, as those of an API server that is unable to handle
        them or with this error. Return a list to which the time of each request is added."""
        return fail_bind(self.scheduler, pod_key(pod), times, error)

    def explain_group(self, group: str) -> str:
        """Return what `mooring explain podgroup/NAME` prints about "name" or "namespace/name"."""
        explanation = explain_named_group(self.scheduler, *pod_key(group).split("/"))
        return (
            f"podgroup {group} does not exist"
            if explanation is None
            else "\n".join(report_group(explanation))
        )

    # ---- time

    @abstractmethod
    def now(self) -> float:
        """Return the time in seconds since the epoch."""

    @abstractmethod
    def advance(self, seconds: float) -> Sequence[Decision]:
        """Let time pass with everything that is due in it. Return the scheduling attempts that were made."""

    @abstractmethod
    def schedule(self) -> Sequence[Decision]:
        """Schedule until nothing is left to try at this moment. Return the attempts that were made."""

    def wait(self, condition: Callable[[], object], timeout: float = 60.0, what: str = "condition") -> None:
        """Let time pass until the condition holds. Raises AssertionError after `timeout` seconds."""
        deadline = self.now() + timeout
        while not condition():
            if self.now() >= deadline:
                raise AssertionError(f"{what}: timed out after {timeout:g} s")
            self.advance(STEP)

    def wait_scheduled(self, *pods: Pod | str, timeout: float = 60.0) -> None:
        """Let time pass until these pods, or all pods, have nodes.

        Raises AssertionError after `timeout` seconds, with an explanation of why pods are pending.
        """
        self.schedule()
        deadline = self.now() + timeout
        while pending := self._pending(pods):
            if self.now() >= deadline:
                reasons = "\n".join(f"{key}:\n{self.explain(key)}" for key in pending[:3])
                verb = "is" if len(pending) == 1 else "are"
                number = count(len(pending), "pod")
                raise AssertionError(f"{number} {verb} pending after {timeout:g} s\n{reasons}")
            self.advance(STEP)

    def _pending(self, pods: Sequence[Pod | str]) -> Sequence[str]:
        if not pods:
            return [pod.key for pod in self.pods() if not pod.spec.node_name and not pod.finished]
        bound = {pod.key for pod in self.pods() if pod.spec.node_name}
        return [key for key in map(pod_key, pods) if key not in bound]

    # ---- decisions

    def attempts(self, pod: Pod | str) -> Sequence[Decision]:
        """Return the scheduling attempts for a pod, in order."""
        key = pod_key(pod)
        return [decision for decision in self.decisions if decision.pod == key]

    def decision(self, pod: Pod | str) -> Decision:
        """Return the last scheduling attempt for a pod. Raises LookupError if there was none."""
        attempts = self.attempts(pod)
        if not attempts:
            raise LookupError(f"pod {pod_key(pod)}: no scheduling attempt")
        return attempts[-1]

    def explain(self, pod: Pod | str) -> str:
        """Return what `mooring explain` prints."""
        key = pod_key(pod)
        explanation = explain_pod(self.scheduler, self._decision_log(), *key.split("/"))
        return f"pod {key} does not exist" if explanation is None else "\n".join(report(explanation))

    def _decision_log(self) -> DecisionLog | None:
        return None

    def plugin(self, cls: type[P], scheduler_name: str = "default-scheduler") -> P:
        """Return the instance of a plugin that a profile runs."""
        instance = self.scheduler.profiles[scheduler_name].plugins[cls.name]
        assert isinstance(instance, cls), f"{cls.name} is {type(instance)}, not {cls}"
        return instance

    # ---- lifetime

    def close(self) -> None:  # noqa: B027 - a cluster in memory holds nothing to release
        """Release everything; done by `with` and by the fixture."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def pod_key(pod: Pod | str) -> str:
    if isinstance(pod, Pod):
        return pod.key
    return pod if "/" in pod else f"default/{pod}"


def split_name(what: str) -> tuple[str, str]:
    """Return the kind and the name of "kind/name"."""
    kind, _, name = what.partition("/")
    if not name:
        raise ValueError(f'"{what}": expected kind/name, e.g. deployment/web')
    return kind, name


def read_manifest(manifest: str | Path) -> tuple[str, str]:
    """Return YAML and its source. Text with a colon or several lines is YAML, anything else a file name."""
    if isinstance(manifest, str) and ("\n" in manifest or ":" in manifest):
        return manifest, "manifest"
    return Path(manifest).read_text(), str(manifest)


def object_name(kind: str, name: str, namespace: str) -> str:
    """Return "pod/web", or "pod/namespace/web" outside of namespace default."""
    where = "" if namespace in ("", "default") else f"{namespace}/"
    return f"{kind.lower()}/{where}{name}"


def about(events: Sequence[Event], what: str, namespace: str) -> Sequence[Event]:
    """Return the events about "kind/name"; all events for ""."""
    if not what:
        return events
    regarding = object_name(*split_name(what), namespace)
    return [event for event in events if event.regarding == regarding]
