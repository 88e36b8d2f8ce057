"""The operations of each path, independent of the dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Resource, Subresource

LIST_PARAMETERS: Final = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
WRITE_PARAMETERS: Final = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
DELETE_PARAMETERS: Final = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}


class _Verb(NamedTuple):
    """How OpenAPI documents describe a verb."""

    method: str
    action: str
    id: str
    description: str
    parameters: dict[str, str]
    codes: tuple[int, ...] = (200,)


_VERBS: Final = {
    "get": _Verb("get", "get", "read", "read{part} the specified {kind}", {}),
    "list": _Verb("get", "list", "list", "list or watch objects of kind {kind}", LIST_PARAMETERS),
    "create": _Verb("post", "post", "create", "create{part}{a}{kind}", WRITE_PARAMETERS, (200, 201, 202)),
    "update": _Verb(
        "put", "put", "replace", "replace{part} the specified {kind}", WRITE_PARAMETERS, (200, 201)
    ),
    "patch": _Verb(
        "patch",
        "patch",
        "patch",
        "partially update{part} the specified {kind}",
        {**WRITE_PARAMETERS, "force": "boolean"},
        (200, 201),
    ),
    "delete": _Verb("delete", "delete", "delete", "delete{a}{kind}", DELETE_PARAMETERS, (200, 202)),
    "deletecollection": _Verb(
        "delete",
        "deletecollection",
        "deleteCollection",
        "delete collection of {kind}",
        {**DELETE_PARAMETERS, **LIST_PARAMETERS},
    ),
}
_ON_ALL: Final = ("list", "create", "deletecollection")
_ON_ONE: Final = ("get", "update", "delete", "patch")


class Operation(NamedTuple):
    """One method of one path."""

    resource: Resource
    subresource: Subresource | None
    verb: str
    path: str

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of its bodies."""
        return self.resource.gvk if self.subresource is None else self.subresource.kind

    @property
    def path_parameters(self) -> list[str]:
        return [name for name in ("name", "namespace") if f"{{{name}}}" in self.path]

    @property
    def method(self) -> str:
        return _VERBS[self.verb].method

    @property
    def action(self) -> str:
        return _VERBS[self.verb].action

    @property
    def parameters(self) -> dict[str, str]:
        """The names of its query parameters, and their types."""
        return _VERBS[self.verb].parameters

    @property
    def codes(self) -> tuple[int, ...]:
        return _VERBS[self.verb].codes

    @property
    def description(self) -> str:
        part = f" {self.subresource.name} of" if self.subresource is not None else ""
        kind = self.resource.kind
        return _VERBS[self.verb].description.format(part=part, kind=kind, a=_article(kind))

    @property
    def id(self) -> str:
        """Its identifier, such as `listCoreV1NamespacedPod`."""
        everywhere = self.resource.namespaced and "namespace" not in self.path_parameters
        place = "Namespaced" if self.resource.namespaced and not everywhere else ""
        part = capitalized(self.subresource.name) if self.subresource is not None else ""
        version = capitalized(group_name(self.resource.group)) + capitalized(self.resource.version)
        verb, collection = _VERBS[self.verb].id, ""
        if self.verb == "deletecollection":
            verb, collection = "delete", "Collection"
        end = "ForAllNamespaces" if everywhere else ""
        return f"{verb}{version}{collection}{place}{self.resource.kind}{part}{end}"


def operations(resource: Resource) -> Iterator[Operation]:
    """Yield all operations of a resource, path by path."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    if resource.namespaced:
        if "list" in resource.verbs:
            yield Operation(resource, None, "list", f"{root}/{resource.plural}")
        root += "/namespaces/{namespace}"
    everything = f"{root}/{resource.plural}"
    for verb in _ON_ALL:
        if verb in resource.verbs:
            yield Operation(resource, None, verb, everything)
    for verb in _ON_ONE:
        if verb in resource.verbs:
            yield Operation(resource, None, verb, f"{everything}/{{name}}")
    for part in resource.subresources.values():
        if part.kind.kind.endswith("Options"):  # attach and the like have no body
            continue
        for verb in ("create", *_ON_ONE):
            if verb in part.verbs:
                yield Operation(resource, part, verb, f"{everything}/{{name}}/{part.name}")


def _article(kind: str) -> str:
    """Return what is put between a verb and a kind: only a space before plural-sounding verbs."""
    if kind.endswith("s") and not kind.endswith("ss"):
        return " "
    return " an " if kind[0] in "AEIOU" else " a "


def group_name(group: str) -> str:
    """Return a group as one word: core, apps, rbacAuthorization."""
    first, *rest = (group or "core").removesuffix(".k8s.io").split(".")
    return first + "".join(capitalized(part) for part in rest)


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
