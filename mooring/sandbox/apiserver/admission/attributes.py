"""A write as admission policies and webhooks see it, in the version that they match."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Final

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Resource
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree, dig

_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(slots=True)
class Attributes:
    """What is written, and the objects in the version that is stored. There is no `obj` for a DELETE."""

    write: Write
    obj: Tree | None
    old: Tree | None
    name: str
    _versioned: dict[Resource, tuple[Tree | None, Tree | None]] = field(default_factory=dict)

    @property
    def subresource(self) -> str:
        return self.write.part or self.write.subresource

    @property
    def namespace(self) -> str:
        """The namespace of the request; a Namespace is in itself."""
        write = self.write
        return self.name if write.resource.storage == "namespaces" else write.namespace

    def kind_in(self, resource: Resource) -> GroupVersionKind:
        """Return the kind of what is written, in a version of its resource."""
        part = resource.subresources.get(self.subresource)
        return resource.gvk if part is None else part.kind

    def objects_in(self, resource: Resource) -> tuple[Tree | None, Tree | None]:
        """Return the new and the old object in a version of their resource. They must not be changed."""
        known = self._versioned.get(resource)
        if known is None:
            known = self._in(resource, self.obj), self._in(resource, self.old)
            self._versioned[resource] = known
        return known

    def _in(self, resource: Resource, tree: Tree | None) -> Tree | None:
        if tree is None:
            return None
        kind = self.kind_in(resource)
        if self.write.part == "scale":
            return _scale(resource, tree)
        if kind != resource.gvk:  # the body of a subresource, which has one version
            return {**tree, "kind": kind.kind, "apiVersion": kind.api_version}
        if resource.conversion is not None:
            tree = copy.deepcopy(tree)
            resource.conversion.from_storage(tree)
        return {**tree, "kind": kind.kind, "apiVersion": kind.api_version}

    def request(self, resource: Resource) -> Tree:
        """Return the AdmissionRequest for a version of the resource, without uid and objects."""
        write = self.write
        return {
            "kind": _kind(self.kind_in(resource)),
            "resource": _resource(resource),
            **({"subResource": self.subresource} if self.subresource else {}),
            "requestKind": _kind(self.kind_in(write.resource)),
            "requestResource": _resource(write.resource),
            **({"requestSubResource": self.subresource} if self.subresource else {}),
            **({"name": self.name} if self.name else {}),
            **({"namespace": self.namespace} if self.namespace else {}),
            "operation": write.operation,
            "userInfo": write.user.info,
            "dryRun": write.options.dry_run,
            "options": self._options(),
        }

    def _options(self) -> Tree | None:
        options = self.write.options
        if self.write.operation == "CONNECT":
            return None
        kind = "PatchOptions" if self.write.verb == "patch" else _OPTIONS[self.write.operation]
        tree: Tree = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if options.dry_run:
            tree["dryRun"] = ["All"]
        if self.write.operation != "DELETE":
            if options.field_manager:
                tree["fieldManager"] = options.field_manager
            tree["fieldValidation"] = options.field_validation.value
        return tree


def _kind(kind: GroupVersionKind) -> Tree:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: Resource) -> Tree:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _scale(resource: Resource, tree: Tree) -> Tree:
    """Return the Scale that is written where only the replicas of an object are."""
    paths = resource.strategy.traits.scale
    shared = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: tree["metadata"][name] for name in shared if name in tree["metadata"]},
        "spec": {"replicas": dig(tree, *paths.replicas) or 0},
        "status": {"replicas": dig(tree, *paths.status_replicas) or 0},
    }
