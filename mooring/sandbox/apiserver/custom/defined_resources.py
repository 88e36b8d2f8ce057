"""The resources of a definition: one for each served version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from mooring.sandbox.apiserver.context.resource import (
    Conversion,
    GroupVersionKind,
    LocalConversion,
    Resource,
    Subresource,
)
from mooring.sandbox.apiserver.context.traits import ScalePaths, Traits
from mooring.sandbox.apiserver.custom.converted_fields import ConvertedFields
from mooring.sandbox.apiserver.custom.custom_codec import CustomCodec
from mooring.sandbox.apiserver.custom.custom_strategy import CustomStrategy
from mooring.sandbox.apiserver.custom.definition_validation import condition
from mooring.sandbox.apiserver.custom.pruning import prune
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.custom.webhook_conversion import ConversionWebhook
from mooring.sandbox.apiserver.discovery import version_priority
from mooring.sandbox.apiserver.kinds.codec import BuiltinCodec
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.columns import Printer
from mooring.sandbox.apiserver.printing.custom_columns import custom_printer
from mooring.sandbox.apiserver.printing.jsonpath import JSONPathError

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_PART_VERBS: Final = ("get", "patch", "update")
_SCALE: Final = GroupVersionKind("autoscaling", "v1", "Scale")
_SCALE_CODEC: Final = BuiltinCodec(_SCALE.api_version, _SCALE.kind, object_type("autoscaling_v1", "Scale"))


def resources_of(definition: Tree) -> Iterator[Resource]:
    """Yield the resources of an established definition; none before that."""
    if condition(definition, "Established") != "True":
        return
    versions: list[Tree] = definition["spec"]["versions"]
    for version in versions:
        if version.get("served"):
            yield _resource(definition, version)


def stored_resource(definition: Tree) -> Resource:
    """Return the resource of the stored version, whether it is served or not."""
    return _resource(definition, _stored_version(definition["spec"]["versions"]))


def stored_schema(definition: Tree) -> Schema:
    return _schema(_stored_version(definition["spec"]["versions"]))


def _stored_version(versions: list[Tree]) -> Tree:
    return next(version for version in versions if version.get("storage"))


def _schema(version: Tree) -> Schema:
    return Schema(version["schema"]["openAPIV3Schema"])


def _resource(definition: Tree, version: Tree) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    kind = GroupVersionKind(spec["group"], version["name"], names["kind"])
    tree = version["schema"]["openAPIV3Schema"]
    schema = Schema(tree)
    codec = CustomCodec(kind, tree, schema)
    parts = version.get("subresources") or {}
    conversion = _conversion(definition, kind, schema)
    fields = ConvertedFields(definition, conversion) if conversion and conversion.is_remote else None
    traits = Traits(
        status=parts.get("status") is not None,
        generation=True,
        unconditional_update=False,
        selectable=_selectable(spec["versions"]) if fields is None else fields.names,
        scale=_scale_paths(parts.get("scale")),
        any_finalizer=True,
    )
    terminating = condition(definition, "Terminating") == "True"
    return Resource(
        kind,
        names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        verbs=_VERBS,
        codec=codec,
        strategy=CustomStrategy(traits, tree, schema, terminating=terminating, fields=fields),
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=names.get("shortNames") or (),
        categories=names.get("categories") or (),
        subresources=_subresources(kind, codec, parts),
        conversion=conversion,
        field_aliases=None if fields is None else fields.aliases(kind.api_version),
        custom=True,
        printer=_printer(version),
        schema=tree,
        deprecation=_deprecation(kind, version, spec["versions"]),
    )


def _subresources(kind: GroupVersionKind, codec: CustomCodec, parts: Tree) -> Iterator[Subresource]:
    if parts.get("status") is not None:
        yield Subresource("status", kind, _PART_VERBS, codec)
    if parts.get("scale") is not None:
        yield Subresource("scale", _SCALE, _PART_VERBS, _SCALE_CODEC)


def _scale_paths(scale: Tree | None) -> ScalePaths:
    if scale is None:
        return ScalePaths()
    selector = scale.get("labelSelectorPath") or ""
    return ScalePaths(
        _path(scale["specReplicasPath"]),
        _path(scale["statusReplicasPath"]),
        _path(selector) if selector else (),
        custom=True,
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.removeprefix(".").split("."))


def _selectable(versions: list[Tree]) -> tuple[str, ...]:
    """Return the selectable fields of all versions: what is stored for one of them serves the others."""
    paths = [field["jsonPath"] for version in versions for field in version.get("selectableFields") or ()]
    return tuple(dict.fromkeys(path.removeprefix(".") for path in paths))


def _conversion(definition: Tree, kind: GroupVersionKind, schema: Schema) -> Conversion | None:
    """Return the conversion by a webhook. Without one versions differ in their apiVersion only, but each has
    just the fields of its schema."""
    versions: list[Tree] = definition["spec"]["versions"]
    stored_version = _stored_version(versions)
    if dig(definition, "spec", "conversion", "strategy") == "Webhook":
        schemas = {f"{kind.group}/{version['name']}": _schema(version) for version in versions}
        storage = f"{kind.group}/{stored_version['name']}"
        return ConversionWebhook(definition, storage, kind.api_version, schemas)
    trees = [dig(version, "schema", "openAPIV3Schema") for version in versions]
    if all(tree == trees[0] for tree in trees):
        return None
    return LocalConversion(partial(_keep_known, _schema(stored_version)), partial(_keep_known, schema))


def _keep_known(schema: Schema, tree: Tree) -> None:
    prune(tree, schema, resource=True)


def _deprecation(kind: GroupVersionKind, version: Tree, versions: list[Tree]) -> str | None:
    """Return the warning about a deprecated version; the default one names the best version that is not
    deprecated."""
    if not version.get("deprecated"):
        return None
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    rank = version_priority(kind.version)
    better = [
        one["name"]
        for one in versions
        if one.get("served") and not one.get("deprecated") and version_priority(one["name"]) > rank
    ]
    warning = f"{kind.api_version} {kind.kind} is deprecated"
    if not better:
        return warning
    return f"{warning}; use {kind.group}/{max(better, key=version_priority)} {kind.kind}"


def _printer(version: Tree) -> Printer:
    """Return the columns of a version. Kubernetes shows only the age if a path is invalid."""
    try:
        return custom_printer(version.get("additionalPrinterColumns") or ())
    except JSONPathError:
        return custom_printer(())
