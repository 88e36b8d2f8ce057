"""What every Kubernetes object shares: metadata, owners, label selectors.

The structs hold the fields that scheduling reads, under their Kubernetes names in snake_case; other
fields of an object are passed over. Objects are treated as values: nothing changes one in place.
"""

from __future__ import annotations

from typing import Any

import msgspec

Tree = dict[str, Any]
"""An object as it is in JSON."""
Quantity = str | int | float
ResourceList = dict[str, Quantity]


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of the structs of objects: camelCase on the wire, defaults left out. Objects are trees: the
    collector of cycles has nothing to find in them, and there may be a million."""


class Value(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True, gc=False):
    """The base of the structs inside them that are compared and shared as values."""


class OwnerReference(Value, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        for owner in self.owner_references:  # asked many times a pod: a loop is the quickest
            if owner.controller:
                return owner
        return None


class ObjectReference(Value, frozen=True):
    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class LabelSelectorRequirement(Value, frozen=True):
    key: str
    operator: str
    values: list[str] = []


class LabelSelector(Value, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class Condition(Struct):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0


class KubeObject(Struct):
    """An object with metadata; `key` is how people name it: "namespace/name" or "name"."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    def reference(self, kind: str, api_version: str) -> ObjectReference:
        """Refer to this version of the object; items of lists do not carry their kind."""
        meta = self.metadata
        return ObjectReference(
            kind=kind,
            api_version=api_version,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
