"""The built-in resources, from lightkube-models: all stable versions of all kinds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from mooring.sandbox.apiserver.context.resource import GroupVersionKind, Registry, Resource, Subresource
from mooring.sandbox.apiserver.conversions import CONVERSIONS, FIELD_ALIASES, STORED_ELSEWHERE
from mooring.sandbox.apiserver.kinds import models
from mooring.sandbox.apiserver.kinds.codec import BuiltinCodec
from mooring.sandbox.apiserver.kinds.short_names import SHORT_NAMES, categories
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.printing.columns import DEFAULT
from mooring.sandbox.apiserver.printing.printers import PRINTERS
from mooring.sandbox.apiserver.strategies.by_kind import strategy_of

_STABLE = re.compile(r".*_v\d+")
_NOT_YET = frozenset(  # stable since 1.37 only
    {
        "clustertrustbundles", "csinodes/status", "devicetaintrules", "podcertificaterequests",
        "storageversionmigrations",
    }
)  # fmt: skip
_ADDED = {
    "GenericWorkload": ("scheduling_v1alpha2", ("podgroups", "workloads")),
    "DRADeviceTaintRules": ("resource_v1beta2", ("devicetaintrules",)),
}
"""What is served if a feature gate is on: kinds of a version."""
_CONNECTIONS: Mapping[str, Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "pods": {
        "attach": ("PodAttachOptions", ("create", "get")),
        "exec": ("PodExecOptions", ("create", "get")),
        "portforward": ("PodPortForwardOptions", ("create", "get")),
        "proxy": ("PodProxyOptions", ("create", "delete", "get", "patch", "update")),
    },
    "services": {"proxy": ("ServiceProxyOptions", ("create", "delete", "get", "patch", "update"))},
    "nodes": {"proxy": ("NodeProxyOptions", ("create", "delete", "get", "patch", "update"))},
}
"""Subresources that are not objects, with kinds and verbs; lightkube-models leaves them out."""
_VERBS = {"post": "create", "put": "update", "global_list": "list", "global_watch": "watch"}


def builtin_registry(features: Collection[str] = ()) -> Registry:
    """Build a registry of everything that kube-apiserver serves by default, and of what features add."""
    return Registry([*_stable_resources(), *_added_resources(features)])


def _stable_resources() -> Iterator[Resource]:
    for module in resource_modules():
        yield from (resource for resource in _resources(module) if resource.plural not in _NOT_YET)


def _added_resources(features: Collection[str]) -> Iterator[Resource]:
    for feature, (module, plurals) in _ADDED.items():
        if feature in features:
            yield from (resource for resource in _resources(module) if resource.plural in plurals)


def resource_modules() -> list[str]:
    return [name for name in models.resource_modules() if _STABLE.fullmatch(name)]


def _resources(module: str) -> Iterator[Resource]:
    """Yield the resources of one group and version, with their subresources."""
    members: list[type] = [
        member for member in vars(models.resource_module(module)).values() if hasattr(member, "_api_info")
    ]
    parts: dict[models.ResourceDef, list[Subresource]] = {}
    for member in members:
        info: models.ApiInfo = vars(member)["_api_info"]
        if info.parent is not None and info.action and f"{info.plural}/{info.action}" not in _NOT_YET:
            kind = GroupVersionKind(*info.resource)
            codec = BuiltinCodec(kind.api_version, kind.kind, object_type(*models.model_of(member)))
            sub = Subresource(info.action, kind, _verbs(info), codec)
            parts.setdefault(info.parent, []).append(sub)
    for member in members:
        info = vars(member)["_api_info"]
        if info.parent is None:
            yield _resource(member, info, parts.get(info.resource, []))


def _verbs(info: models.ApiInfo) -> tuple[str, ...]:
    verbs = {_VERBS.get(verb, verb) for verb in info.verbs}
    return tuple(sorted(verbs - {"watch"} if info.plural == "componentstatuses" else verbs))


def _resource(member: type, info: models.ApiInfo, subresources: list[Subresource]) -> Resource:
    gvk, plural = GroupVersionKind(*info.resource), info.plural
    type = object_type(*models.model_of(member))
    own = f"{plural}.{gvk.group}" if gvk.group else plural
    storage = STORED_ELSEWHERE.get(own, own)
    codec = BuiltinCodec(gvk.api_version, gvk.kind, type)
    subresources += [
        Subresource(name, GroupVersionKind("", "v1", kind), verbs, codec)
        for name, (kind, verbs) in _CONNECTIONS.get(own, {}).items()
    ]
    return Resource(
        gvk,
        plural,
        namespaced=issubclass(member, models.Namespaced),
        verbs=_verbs(info),
        codec=codec,
        strategy=strategy_of(storage, type, status=any(sub.name == "status" for sub in subresources)),
        short_names=SHORT_NAMES.get(plural, ()),
        categories=categories(gvk.group, plural),
        subresources=subresources,
        storage=storage,
        conversion=CONVERSIONS.get(gvk),
        field_aliases=FIELD_ALIASES.get(gvk),
        type=type,
        printer=PRINTERS.get(storage, DEFAULT),
    )
