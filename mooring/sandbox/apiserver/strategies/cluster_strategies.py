"""Strategies of namespaces, nodes, priority classes and events."""

from __future__ import annotations

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause, invalid
from mooring.sandbox.apiserver.objects import Tree, dig

_FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """A namespace is held by a finalizer in its spec, until its content is deleted and it is finalized."""

    def default(self, obj: Tree) -> None:
        super().default(obj)
        metadata = obj["metadata"]
        if metadata.get("name"):
            metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        finalizers = dig(obj, "spec", "finalizers") or []
        if _FINALIZER not in finalizers:
            finalizers = [*finalizers, _FINALIZER]
        obj["spec"] = {"finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        super().prepare_update(write, obj, old)
        obj["spec"] = old.get("spec", {})

    def held(self, obj: Tree) -> bool:
        return super().held(obj) or bool(dig(obj, "spec", "finalizers"))

    def mark_deleted(self, obj: Tree) -> None:
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}


class NodeStrategy(Strategy):
    """The status of a new node is accepted: kubelets register themselves in one request."""

    def reset_status(self, obj: Tree) -> None:
        if not obj.get("status"):
            obj["status"] = {}

    def select(self, obj: Tree) -> tuple[str, ...]:
        spec = obj.get("spec")
        return ("true" if spec and spec.get("unschedulable") else "false",)


class PriorityClassStrategy(Strategy):
    """A priority class has a generation that never changes."""

    def spec_of(self, obj: Tree) -> object:
        return None


class EventStrategy(Strategy):
    """Events of both groups are one kind; errors name that of the core group."""

    def validate_create(self, obj: Tree) -> list[Cause]:
        return self._refused(obj, super().validate_create(obj))

    def validate_update(self, obj: Tree, old: Tree) -> list[Cause]:
        return self._refused(obj, super().validate_update(obj, old))

    def _refused(self, obj: Tree, causes: list[Cause]) -> list[Cause]:
        if causes:
            raise invalid("", "Event", obj["metadata"].get("name", ""), causes)
        return causes

    def select(self, obj: Tree) -> tuple[str, ...]:
        about, component = obj.get("involvedObject") or {}, obj.get("reportingComponent", "")
        return (
            about.get("kind", ""),
            about.get("namespace", ""),
            about.get("name", ""),
            about.get("uid", ""),
            about.get("apiVersion", ""),
            about.get("resourceVersion", ""),
            about.get("fieldPath", ""),
            obj.get("reason", ""),
            component,
            dig(obj, "source", "component") or component,
            obj.get("type", ""),
        )
