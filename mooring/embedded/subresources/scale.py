"""scale: the number of replicas of anything that has some, in one shape for all."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mooring.cluster.port import PatchType
from mooring.embedded.errors import bad_request, invalid, invalid_value, unsupported_media_type
from mooring.embedded.objects import Tree, decode_record, dig
from mooring.embedded.patches.apply_patch import SUPPORTED, apply_patch
from mooring.embedded.store.record import Record
from mooring.embedded.verbs.body import read_object
from mooring.embedded.verbs.options import write_options
from mooring.embedded.verbs.reading import get
from mooring.embedded.verbs.request import Answer, Request, TreeAnswer
from mooring.embedded.verbs.updating import change
from mooring.embedded.verbs.write import Write


def get_scale(request: Request) -> Answer:
    return TreeAnswer(_scale(request, get(request.api, request.resource, request.namespace, request.name)))


def update_scale(request: Request) -> Answer:
    write = request.write(write_options(request.params, "UpdateOptions"), "UPDATE")
    subresource = request.subresource
    assert subresource is not None
    wanted = read_object(write, request.body, request.content_type, subresource.codec, subresource.kind)
    return _rescale(request, write, lambda scale: wanted)


def patch_scale(request: Request) -> Answer:
    media = request.content_type.partition(";")[0].strip().lower()
    if media not in SUPPORTED:
        raise unsupported_media_type(SUPPORTED)
    write = request.write(write_options(request.params, "PatchOptions"), "UPDATE")
    subresource = request.subresource
    assert subresource is not None
    codec = subresource.codec
    try:
        patch = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None

    def produce(scale: Tree) -> Tree:
        kind = (
            PatchType.MERGE if media == PatchType.STRATEGIC.value else PatchType(media)
        )  # a Scale has no lists
        patched = apply_patch(request.resource, kind, patch, scale)
        return codec.sift(patched, write.options.field_validation).tree

    return _rescale(request, write, produce)


def _rescale(request: Request, write: Write, produce: Callable[[Tree], Tree]) -> Answer:
    resource = request.resource
    present = get(request.api, resource, request.namespace, request.name)
    wanted = produce(_scale(request, present))
    replicas = dig(wanted, "spec", "replicas") or 0
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", request.name, [cause])
    version = dig(wanted, "metadata", "resourceVersion")
    write.subresource = ""  # from here on it is an update of the object's spec

    def rescaled(old: Tree) -> Tree:
        old.setdefault("spec", {})["replicas"] = replicas
        if version:
            old["metadata"]["resourceVersion"] = version
        return old

    return TreeAnswer(_scale(request, change(write, rescaled)), 200, write.warnings)


def _scale(request: Request, record: Record) -> Tree:
    """The Scale of an object."""
    obj = decode_record(record, "", "")
    known = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in known if name in obj["metadata"]}
    status = {"replicas": dig(obj, "status", "replicas") or 0}
    selector = _selector(dig(obj, "spec", "selector"))
    if selector:
        status["selector"] = selector
    replicas = dig(obj, "spec", "replicas")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector(selector: Tree | None) -> str:
    """A selector as text. Replication controllers have a plain map, the others the full form."""
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
