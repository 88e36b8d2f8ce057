"""`agnhost webhook`: the admission webhooks that Kubernetes' own tests deploy."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.serving.messages import Answer, as_json

Tree = dict[str, Any]

_DELAY: Final = 5.0
_FOREVER: Final = 3600.0  # longer than any caller waits
_LABEL: Final = "webhook-e2e-test"
_CORE: Final = "/v1, Resource="
_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_ALLOWED: Final[Tree] = {"allowed": True}


class AdmissionWebhooks(msgspec.Struct, frozen=True):
    """All webhooks of the program. `sidecar_image` is what one of them adds to pods."""

    sidecar_image: str = ""

    async def __call__(self, path: str, body: bytes) -> Answer:
        if path == "/readyz":
            return Answer(body=b"ok")
        if path not in _BY_PATH and path not in ("/always-allow-delay-5s", "/mutating-pods-sidecar"):
            return Answer(404, b"404 page not found\n")
        try:
            review = msgspec.json.decode(body)
            version, request = review["apiVersion"], review["request"]
            if version not in _VERSIONS:
                return Answer(400, f"Unsupported group version kind: {version}".encode())
            response = await self._respond(path, request)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            return Answer(400, f"Request could not be decoded: {error}".encode())
        answered = {**response, "uid": request.get("uid", "")}
        return as_json({"kind": "AdmissionReview", "apiVersion": version, "response": answered})

    async def _respond(self, path: str, request: Tree) -> Tree:
        if path == "/always-allow-delay-5s":
            await asyncio.sleep(_DELAY)
            return {"allowed": True, "status": {"message": "this webhook allows all requests"}}
        if path == "/mutating-pods-sidecar":
            return _add_sidecar(request, self.sidecar_image)
        if path == "/pods" and _labels(request).get(_LABEL) == "wait-forever":
            await asyncio.sleep(_FOREVER)
        return _BY_PATH[path](request)


def _deny(message: str) -> Tree:
    return {"allowed": False, "status": {"message": message}}


def _patch(operation: str, path: str, value: object) -> Tree:
    patch = msgspec.json.encode([{"op": operation, "path": path, "value": value}])
    return {"allowed": True, "patch": base64.b64encode(patch).decode(), "patchType": "JSONPatch"}


def _expect(request: Tree, resource: str) -> Tree | None:
    """Return the answer to a request about another resource than the webhook is for."""
    about = request["resource"]
    found = f"{about.get('group', '')}/{about['version']}, Resource={about['resource']}"
    return None if found == resource else _deny(f"expect resource to be {resource}")


def _labels(request: Tree) -> Mapping[str, str]:
    return (request.get("object") or {}).get("metadata", {}).get("labels") or {}


# ---- any object


def _always_deny(request: Tree) -> Tree:
    return _deny("this webhook denies all requests")


def _add_label(request: Tree) -> Tree:
    labels = _labels(request)
    if not labels:
        return _patch("add", "/metadata/labels", {"added-label": "yes"})
    if "added-label" not in labels:
        return _patch("add", "/metadata/labels/added-label", "yes")
    if labels["added-label"] != "yes":
        return _patch("replace", "/metadata/labels/added-label", "yes")
    return _ALLOWED


def _deny_definitions(request: Tree) -> Tree:
    if _labels(request).get(_LABEL) == "webhook-disallow":
        return _deny("the crd contains unwanted label")
    return _ALLOWED


# ---- data of ConfigMaps and custom resources


def _deny_config_maps(request: Tree) -> Tree:
    return _expect(request, f"{_CORE}configmaps") or _deny_data(
        request,
        "the configmap contains unwanted key and value",
        "the configmap cannot be deleted because it contains unwanted key and value",
    )


def _deny_custom_resources(request: Tree) -> Tree:
    return _deny_data(
        request,
        "the custom resource contains unwanted data",
        "the custom resource cannot be deleted because it contains unwanted key and value",
    )


def _deny_data(request: Tree, unwanted: str, undeletable: str) -> Tree:
    operation = request["operation"]
    obj = request["oldObject" if operation == "DELETE" else "object"]
    value = (obj.get("data") or {}).get(_LABEL)
    reason = ""
    if value == "webhook-disallow" and operation in ("CREATE", "UPDATE"):
        reason = unwanted
    elif value == "webhook-nondeletable" and operation == "DELETE":
        reason = undeletable
    return {"allowed": False, "status": {"reason": reason}} if reason else _ALLOWED


def _change_config_maps(request: Tree) -> Tree:
    return _expect(request, f"{_CORE}configmaps") or _change_data(request)


def _change_data(request: Tree) -> Tree:
    data = request["object"].get("data") or {}
    if data.get("mutation-stage-1") == "yes":
        return _patch("add", "/data/mutation-stage-2", "yes")
    if data.get("mutation-start") == "yes":
        return _patch("add", "/data/mutation-stage-1", "yes")
    return _ALLOWED


# ---- pods


def _deny_pods(request: Tree) -> Tree:
    if other := _expect(request, f"{_CORE}pods"):
        return other
    messages = []
    if _labels(request).get(_LABEL) == "webhook-disallow":
        messages.append("the pod contains unwanted label;")
    messages += [
        "the pod contains unwanted container name;"
        for one in request["object"]["spec"].get("containers") or ()
        if "webhook-disallow" in one["name"]
    ]
    return _deny(" ".join(messages)) if messages else _ALLOWED


def _deny_attaching(request: Tree) -> Tree:
    if request.get("name") != "to-be-attached-pod":
        return _ALLOWED
    if other := _expect(request, f"{_CORE}pods"):
        return other
    options = request["object"]
    if not options.get("stdin") or options.get("container") != "container1":
        return _ALLOWED
    return _deny("attaching to pod 'to-be-attached-pod' is not allowed")


def _add_init_container(request: Tree) -> Tree:
    name, pod = "webhook-added-init-container", request["object"]
    if other := _expect(request, f"{_CORE}pods"):
        return other
    if pod["metadata"].get("name") != "webhook-to-be-mutated" or _has(pod, "initContainers", name):
        return _ALLOWED
    container = {"image": "webhook-added-image", "name": name, "resources": {}}
    return _patch("add", "/spec/initContainers", [container])


def _add_sidecar(request: Tree, image: str) -> Tree:
    if not image:
        message = "No image specified by the sidecar-image parameter"
        return {"allowed": False, "status": {"status": "Failure", "message": message, "code": 500}}
    if other := _expect(request, f"{_CORE}pods"):
        return other
    name = "webhook-added-sidecar"
    if _has(request["object"], "containers", name):
        return _ALLOWED
    return _patch("add", "/spec/containers/-", {"image": image, "name": name, "resources": {}})


def _has(pod: Tree, field: str, name: str) -> bool:
    return any(one["name"] == name for one in pod["spec"].get(field) or ())


_BY_PATH: Final[dict[str, Callable[[Tree], Tree]]] = {
    "/always-deny": _always_deny,
    "/add-label": _add_label,
    "/pods": _deny_pods,
    "/pods/attach": _deny_attaching,
    "/mutating-pods": _add_init_container,
    "/configmaps": _deny_config_maps,
    "/mutating-configmaps": _change_config_maps,
    "/custom-resource": _deny_custom_resources,
    "/mutating-custom-resource": _change_data,
    "/crd": _deny_definitions,
}
