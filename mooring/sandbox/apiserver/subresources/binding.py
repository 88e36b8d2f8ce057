"""binding: assign a pod to a node."""

from __future__ import annotations

from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import (
    Cause,
    bad_request,
    conflict,
    invalid,
    not_found,
    not_supported,
    required,
)
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.store.record import key_of
from mooring.sandbox.apiserver.verbs.body import read_object
from mooring.sandbox.apiserver.verbs.creating import stored
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TreeAnswer

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def bind_pod(request: Request) -> Answer:
    """POST …/pods/NAME/binding."""
    binding, write = _read(request)
    if (binding.get("metadata") or {}).get("name", "") != request.name:
        raise bad_request("name in URL does not match name in Binding object")
    bind(write, binding)
    return TreeAnswer(_SUCCESS, 201)


def bind_named(request: Request) -> Answer:
    """POST …/bindings: the older form, in which the binding names the pod."""
    binding, write = _read(request)
    pods = request.api.registry.find("", "v1", "pods")
    assert pods is not None
    write.resource, write.subresource = pods, "binding"
    write.name = (binding.get("metadata") or {}).get("name", "")
    bind(write, binding)
    return TreeAnswer(_SUCCESS, 201)


def _read(request: Request) -> tuple[Tree, Write]:
    write = request.write("CREATE")
    part = request.subresource or request.resource
    gvk = part.kind if request.subresource is not None else request.resource.gvk
    binding = read_object(write, request.body, request.content_type, part.codec, gvk)  # type: ignore[arg-type]
    return binding, write


def bind(write: Write, binding: Tree) -> None:
    """Assign a node to a pod that has none. Raises ApiError."""
    target = binding.get("target") or {}
    causes: list[Cause] = []
    if target.get("kind", "") not in ("", "Node"):
        causes.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:
        raise invalid("", "Binding", write.name, causes)
    write.api.admission.admit(write, binding, None)
    write.api.admission.validate(write, binding, None)
    pod = write.api.read("pods", write.name, write.namespace)
    if pod is None:
        raise not_found("", "pods", write.name)
    _assign(write, pod, binding, target["name"])
    stored(write, key_of(write.namespace, write.name), pod)


def _assign(write: Write, pod: Tree, binding: Tree, node: str) -> None:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.setdefault("status", {})
    preconditions = binding.get("metadata") or {}
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if preconditions.get(field) and preconditions[field] != metadata[field]:
            current = f"{name} in object meta: {metadata[field]}"
            why = f"Precondition failed: {name} in precondition: {preconditions[field]}, {current}"
            raise conflict("", "pods/binding", write.name, why)
    if "deletionTimestamp" in metadata:
        raise conflict(
            "", "pods/binding", write.name, f"pod {write.name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        why = f'pod {write.name} is already assigned to node "{spec["nodeName"]}"'
        raise conflict("", "pods/binding", write.name, why)
    if spec.get("schedulingGates"):
        raise conflict(
            "", "pods/binding", write.name, f"pod {write.name} has non-empty .spec.schedulingGates"
        )
    spec["nodeName"] = node
    status.pop("nominatedNodeName", None)
    for name in ("annotations", "labels"):
        if preconditions.get(name):
            metadata.setdefault(name, {}).update(preconditions[name])
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": write.api.now(),
    }
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
