"""scale: the number of replicas of any kind that has one, as a Scale."""

from __future__ import annotations

from collections.abc import Callable

from mooring.client.port import PatchType
from mooring.sandbox.apiserver.context.resource import Subresource
from mooring.sandbox.apiserver.context.traits import ScalePaths
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import invalid, invalid_value
from mooring.sandbox.apiserver.fields.kind_shapes import shape_of_kind
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree, decode_record, dig
from mooring.sandbox.apiserver.patches.apply import check_configuration
from mooring.sandbox.apiserver.patches.apply_patch import apply_patch
from mooring.sandbox.apiserver.store.record import Record
from mooring.sandbox.apiserver.verbs.body import read_object
from mooring.sandbox.apiserver.verbs.patching import (
    apply_to_existing,
    patch_options,
    patch_type,
    read_configuration,
    requested_patch,
)
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TreeAnswer
from mooring.sandbox.apiserver.verbs.updating import change, in_version

_SCALE = shape_of_kind(object_type("autoscaling_v1", "Scale"))


def get_scale(request: Request) -> Answer:
    return TreeAnswer(_scale(request, get(request.api, request.resource, request.namespace, request.name)))


def update_scale(request: Request) -> Answer:
    write = request.write("UPDATE")
    subresource = request.subresource
    assert subresource is not None
    sent = read_object(write, request.body, request.content_type, subresource.codec, subresource.kind)
    return _rescale(request, write, lambda scale: sent)


def patch_scale(request: Request) -> Answer:
    kind = patch_type(request)
    write = request.write("UPDATE", patch_options(request, kind))
    subresource = request.subresource
    assert subresource is not None
    if kind is PatchType.APPLY:
        return _apply_scale(request, write, subresource)
    content = requested_patch(request, kind, write.options.field_validation)
    return _rescale(request, write, lambda scale: apply_patch(content, subresource.codec, scale).tree)


def _apply_scale(request: Request, write: Write, subresource: Subresource) -> Answer:
    """Apply a Scale by applying the number of replicas to the object."""
    scale, kind, resource = read_configuration(request), subresource.kind, request.resource
    check_configuration(_SCALE, kind, scale)
    replicas = dig(scale, "spec", "replicas")
    config: Tree = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": request.name},
        "spec": {},
    }
    if replicas is not None:
        _set_replicas(config, resource.strategy.traits.scale, replicas)
    write.subresource, write.part = "", "scale"
    record = apply_to_existing(write, config, resource.codec)
    return TreeAnswer(_scale(request, record), 200, write.warnings)


def _set_replicas(obj: Tree, paths: ScalePaths, replicas: int) -> None:
    *parents, name = paths.replicas
    for parent in parents:
        obj = obj.setdefault(parent, {})
    obj[name] = replicas


def _rescale(request: Request, write: Write, produce: Callable[[Tree], Tree]) -> Answer:
    resource = request.resource
    present = get(request.api, resource, request.namespace, request.name)
    scale = produce(_scale(request, present))
    replicas = dig(scale, "spec", "replicas") or 0
    if replicas < 0 and not resource.custom:  # custom resources are validated by their definition
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", request.name, [cause])
    version = dig(scale, "metadata", "resourceVersion")
    write.subresource, write.part = "", "scale"  # from here on it is an update of the object's spec

    def rescaled(old: Tree) -> Tree:
        _set_replicas(old, resource.strategy.traits.scale, replicas)
        if version:
            old["metadata"]["resourceVersion"] = version
        return old

    return TreeAnswer(_scale(request, change(write, rescaled)), 200, write.warnings)


def _scale(request: Request, record: Record) -> Tree:
    """Return the Scale of an object."""
    obj = decode_record(record, request.resource.api_version, request.resource.kind)
    if request.resource.converts_remotely:
        in_version(request.resource, obj)
    shared = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in shared if name in obj["metadata"]}
    paths = request.resource.strategy.traits.scale
    status = {"replicas": dig(obj, *paths.status_replicas) or 0}
    selected = dig(obj, *paths.selector) if paths.selector else None
    selector = selected if paths.custom else _selector(selected)
    if selector:
        status["selector"] = selector
    replicas = dig(obj, *paths.replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector(selector: Tree | None) -> str:
    """Format a selector. Replication controllers have a plain map, others the full form."""
    if not selector:
        return ""
    expressions = selector.get("matchExpressions") or []
    labels = selector.get("matchLabels") or {}
    if not expressions and not labels:
        labels = selector
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    for one in expressions:
        values = ",".join(sorted(one.get("values") or ()))
        key, operator = one.get("key", ""), one.get("operator")
        parts.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(
                operator, f"!{key}"
            )
        )
    return ",".join(parts)
