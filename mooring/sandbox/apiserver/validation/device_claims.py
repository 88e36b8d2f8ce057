"""DeviceClasses, ResourceClaims and ResourceClaimTemplates. The status of claims has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, not_supported, required
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.kinds.go_form import go_form
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.device_fields import (
    bounded,
    class_name,
    device_toleration,
    full_attribute_name,
    label,
    name_of,
    opaque_configuration,
    unique,
)
from mooring.sandbox.apiserver.validation.device_selectors import device_selector
from mooring.sandbox.apiserver.validation.fields import IMMUTABLE, NOT_POSITIVE, Causes
from mooring.sandbox.apiserver.validation.labels import labels
from mooring.sandbox.apiserver.validation.metadata import validate_annotations
from mooring.sandbox.apiserver.validation.resources import is_extended

MAX_REQUESTS: Final = 32
MAX_CONFIGURATIONS: Final = 32
_MAX_SELECTORS, _MAX_CONSTRAINTS, _MAX_ALTERNATIVES = 32, 32, 8
_MODES: Final = choices("resource_v1.ExactDeviceRequest.allocationMode")
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

RequestNames = Mapping[str, frozenset[str]]
"""The requests of a claim, with their subrequests."""


# ---- classes --------------------------------------------------------------------------------------


def device_class(obj: Tree) -> Causes:
    spec = obj["spec"]
    yield from bounded("spec.selectors", spec.get("selectors") or (), _MAX_SELECTORS, device_selector)
    yield from bounded("spec.config", spec.get("config") or (), MAX_CONFIGURATIONS, opaque_configuration)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        yield invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name")


# ---- claims and templates -------------------------------------------------------------------------


def resource_claim(obj: Tree) -> Causes:
    yield from _device_claim("spec.devices", obj["spec"]["devices"])


def resource_claim_update(obj: Tree, old: Tree) -> Causes:
    yield from _unchanged("ResourceClaimSpec", obj, old)


def resource_claim_template(obj: Tree) -> Causes:
    metadata = obj["spec"].get("metadata") or {}
    yield from validate_annotations("spec.metadata.annotations", metadata.get("annotations"))
    yield from labels("spec.metadata.labels", metadata.get("labels"))
    for name in metadata:
        if name not in ("annotations", "labels") and metadata[name]:
            yield forbidden_value(f"spec.metadata.{name}", "cannot be set")
    yield from _device_claim("spec.spec.devices", obj["spec"]["spec"]["devices"])


def resource_claim_template_update(obj: Tree, old: Tree) -> Causes:
    yield from _unchanged("ResourceClaimTemplateSpec", obj, old)


def _unchanged(type_name: str, obj: Tree, old: Tree) -> Causes:
    if obj["spec"] != old["spec"]:
        shown = go_form(object_type("resource_v1", type_name), obj["spec"])
        yield invalid_value("spec", shown, IMMUTABLE)


def _device_claim(path: str, claim: Tree) -> Causes:
    names = request_names(claim)
    yield from unique(f"{path}.requests", claim.get("requests") or (), MAX_REQUESTS, _request, name_of)
    constraint = partial(_constraint, names=names)
    yield from bounded(f"{path}.constraints", claim.get("constraints") or (), _MAX_CONSTRAINTS, constraint)
    configuration = partial(_configuration, names=names)
    yield from bounded(f"{path}.config", claim.get("config") or (), MAX_CONFIGURATIONS, configuration)


def request_names(claim: Tree) -> RequestNames:
    return {
        name_of(request): frozenset(map(name_of, request.get("firstAvailable") or ()))
        for request in claim.get("requests") or ()
    }


def _request(path: str, request: Tree) -> Causes:
    yield from label(f"{path}.name", name_of(request))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    why = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        yield required(path, why)
    elif exactly is not None and alternatives:
        yield invalid_value(path, None, f"{why}, but multiple fields are set")
    elif exactly is not None:
        yield from _exact_request(f"{path}.exactly", exactly)
    else:
        yield from unique(
            f"{path}.firstAvailable", alternatives or (), _MAX_ALTERNATIVES, _subrequest, name_of
        )


def _subrequest(path: str, request: Tree) -> Causes:
    yield from label(f"{path}.name", name_of(request))
    yield from _exact_request(path, request)


def _exact_request(path: str, request: Tree) -> Causes:
    yield from class_name(f"{path}.deviceClassName", request.get("deviceClassName", ""))
    selectors = request.get("selectors") or ()
    yield from bounded(f"{path}.selectors", selectors, _MAX_SELECTORS, device_selector)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield invalid_value(f"{path}.count", count, f"must not be specified when allocationMode is '{mode}'")
    elif mode == "ExactCount" and count <= 0:
        yield invalid_value(f"{path}.count", count, NOT_POSITIVE)
    for index, toleration in enumerate(request.get("tolerations") or ()):
        yield from device_toleration(f"{path}.tolerations[{index}]", toleration)


def _constraint(path: str, constraint: Tree, *, names: RequestNames) -> Causes:
    yield from named_requests(f"{path}.requests", constraint, names)
    for name in ("matchAttribute", "distinctAttribute"):
        if constraint.get(name) is not None:
            yield from full_attribute_name(f"{path}.{name}", constraint[name])
            return
    named = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
    yield required(path, f"{named}, but multiple fields are set")


def _configuration(path: str, configuration: Tree, *, names: RequestNames) -> Causes:
    yield from named_requests(f"{path}.requests", configuration, names)
    yield from opaque_configuration(path, configuration)


def named_requests(path: str, item: Tree, names: RequestNames) -> Causes:
    """Validate the requests that a constraint or a configuration is for."""
    rule = partial(request_reference, names=names)
    yield from unique(path, item.get("requests") or (), MAX_REQUESTS, rule, _itself)


def _itself(item: Any) -> Any:
    return item


def request_reference(path: str, name: str, *, names: RequestNames) -> Causes:
    """Validate the name of a request, or of a request and a subrequest."""
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid_value(path, name, _NO_REQUEST)
        return
    for part in parts:
        yield from label(path, part)
    if parts[0] not in names or (len(parts) == 2 and parts[1] not in names[parts[0]]):
        yield invalid_value(path, name, _NO_REQUEST)
