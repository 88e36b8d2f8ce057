"""Objects as the API server sent them: structs hold what scheduling reads, an extender is shown all of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from mooring.api.kinds import WATCHED, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.client.informers import Sink
from mooring.config import Extender

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_NOT_SHOWN = ("kind", "apiVersion")  # kube-scheduler does not show these either, nor managedFields


class Originals:
    """The JSON of the objects that extenders may have to be shown, by uid.

    Informers pass objects to it before they pass them to the scheduler, so an extender may see a newer
    version of a pod than the scheduler. Objects that are missing here, such as those from a manifest, are
    encoded from their structs.
    """

    def __init__(self, extenders: Iterable[Extender]) -> None:
        verbs = [
            (e.filter_verb or e.prioritize_verb, e.preempt_verb, e.node_cache_capable) for e in extenders
        ]
        self.nodes = any(asks and not cached for asks, _, cached in verbs)
        self.assigned_pods = any(preempts and not cached for _, preempts, cached in verbs)
        self.version = 0  # changes whenever a node does
        self._by_uid: dict[str, bytes] = {}

    def watched(
        self, resources: Iterable[ApiResource[KubeObject]] = WATCHED
    ) -> list[ApiResource[KubeObject]]:
        """Return the kinds that a scheduler watches, with their raw JSON passed to this collection."""
        kinds = (Pod, Node) if self.nodes else (Pod,)
        return [
            msgspec.structs.replace(resource, keep=self.keep)
            if issubclass(resource.model, kinds)
            else resource
            for resource in resources
        ]

    def keep(self, obj: KubeObject, raw: bytes) -> None:
        """An object was read."""
        if isinstance(obj, Node):
            self._by_uid[obj.uid] = shown(raw)
            self.version += 1
        elif isinstance(obj, Pod):
            if obj.spec.node_name and not self.assigned_pods:
                self._by_uid.pop(obj.uid, None)
            else:
                self._by_uid[obj.uid] = shown(raw)

    def drop(self, obj: KubeObject) -> None:
        """An object is gone."""
        if self._by_uid.pop(obj.uid, None) is not None and isinstance(obj, Node):
            self.version += 1

    def of(self, obj: KubeObject) -> bytes:
        """An object's JSON."""
        original = self._by_uid.get(obj.uid)
        return shown(msgspec.json.encode(obj)) if original is None else original


class ForgettingSink:
    """A sink of informers before which originals forget what is gone."""

    def __init__(self, sink: Sink, originals: Originals) -> None:
        self.apply = sink.apply
        self._delete = sink.delete
        self._originals = originals

    def delete(self, obj: KubeObject) -> None:
        self._originals.drop(obj)
        self._delete(obj)


def shown(raw: bytes) -> bytes:
    """An object's JSON without what says nothing about it: its type, and who set which field."""
    members = _members(raw)
    for name in _NOT_SHOWN:
        members.pop(name, None)
    metadata = _members(members.get("metadata", b"{}"))
    if metadata.pop("managedFields", None) is not None:
        members["metadata"] = Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(members)
