"""Ingresses and IngressClasses."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import (
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.addresses import domain_prefixed_path, host_name, is_ip
from mooring.sandbox.apiserver.validation.fields import (
    Causes,
    immutable,
    ip_address,
    required_text,
    text,
)
from mooring.sandbox.apiserver.validation.names import (
    dns_label,
    dns_subdomain,
    path_segment,
    port_name,
    port_number,
)

_CLASS: Final = "kubernetes.io/ingress.class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END: Final = ("/..", "/.")
_NOT_AN_IP: Final = "must be a DNS name, not an IP address"
_LONGEST_CONTROLLER: Final = 250
_SCOPES: Final = ("Cluster", "Namespace")


def ingress(obj: Tree) -> Causes:
    yield from ingress_spec(obj.get("spec") or {})
    noted = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    if noted is not None and dig(obj, "spec", "ingressClassName") not in (None, noted):
        why = "must match `ingressClassName` when both are specified"
        yield invalid_value(f"annotations.{_CLASS}", noted, why)


def ingress_update(obj: Tree, old: Tree) -> Causes:
    yield from ingress_spec(obj.get("spec") or {})


def ingress_spec(spec: Tree) -> Causes:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _backend("spec.defaultBackend", backend)
    for index, rule in enumerate(rules):
        yield from _rule(f"spec.rules[{index}]", rule)
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            yield from host_name(f"spec.tls[{index}].hosts[{number}]", host)
        if tls.get("secretName"):
            yield from text(f"spec.tls[{index}].secretName", tls["secretName"], dns_subdomain)
    if spec.get("ingressClassName") is not None:
        yield from text("spec.ingressClassName", spec["ingressClassName"], dns_subdomain)


def _rule(path: str, rule: Tree) -> Causes:
    host = rule.get("host", "")
    if host:
        if is_ip(host):
            yield invalid_value(f"{path}.host", host, _NOT_AN_IP)
        yield from host_name(f"{path}.host", host)
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{path}.http.paths")
    for index, one in enumerate(http.get("paths") or ()):
        yield from _http_path(f"{path}.http.paths[{index}]", one)


def _http_path(path: str, item: Tree) -> Causes:
    kind, value, at = item.get("pathType"), item.get("path", ""), f"{path}.path"
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        yield invalid_value(at, value, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _NOT_IN_PATHS:
            if part in value:
                yield invalid_value(at, value, f"must not contain '{part}'")
        for end in _NOT_AT_THE_END:
            if value.endswith(end):
                yield invalid_value(at, value, f"cannot end with '{end}'")
    yield from _backend(f"{path}.backend", item.get("backend") or {})


def _backend(path: str, backend: Tree) -> Causes:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid_value(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(f"{path}.resource", resource)
    elif service is not None:
        yield from _service(path, service)
    else:
        yield invalid_value(path, "", "resource or service backend is required")


def _service(path: str, service: Tree) -> Causes:
    yield from required_text(f"{path}.service.name", service.get("name"), dns_label)
    port = service.get("port") or {}
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        yield invalid_value(path, "", "cannot set both port name & port number")
    elif name:
        yield from text(f"{path}.service.port.name", name, port_name)
    elif number:
        for problem in port_number(number):
            yield invalid_value(f"{path}.service.port.number", number, problem)
    else:
        yield required(path, "port name or number is required")


def _reference(path: str, reference: Tree) -> Causes:
    if reference.get("apiGroup") is not None:
        yield from text(f"{path}.apiGroup", reference["apiGroup"], dns_subdomain)
    for name in ("kind", "name"):
        yield from required_text(f"{path}.{name}", reference.get(name), path_segment)


def ingress_status(obj: Tree, old: Tree) -> Causes:
    for index, balancer in enumerate(dig(obj, "status", "loadBalancer", "ingress") or ()):
        at, host = f"status.loadBalancer.ingress[{index}]", balancer.get("hostname", "")
        if balancer.get("ip"):
            yield from ip_address(f"{at}.ip", balancer["ip"])
        if host:
            yield from text(f"{at}.hostname", host, dns_subdomain)
            if is_ip(host):
                yield invalid_value(f"{at}.hostname", host, _NOT_AN_IP)


def ingress_class(obj: Tree) -> Causes:
    spec = obj.get("spec") or {}
    controller, parameters = spec.get("controller", ""), spec.get("parameters")
    if len(controller) > _LONGEST_CONTROLLER:
        yield too_long("spec.controller", _LONGEST_CONTROLLER)
    yield from domain_prefixed_path("spec.controller", controller)
    if parameters is None:
        return
    at, scope, namespace = "spec.parameters", parameters.get("scope"), parameters.get("namespace")
    yield from _reference(at, parameters)
    if scope not in _SCOPES:
        yield not_supported(f"{at}.scope", scope, _SCOPES)
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden_value(f"{at}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield required(f"{at}.namespace", "`parameters.scope` is set to 'Namespace'")
    else:
        yield from text(f"{at}.namespace", namespace, dns_label)


def ingress_class_update(obj: Tree, old: Tree) -> Causes:
    controller = dig(obj, "spec", "controller") or ""
    yield from immutable("spec.controller", controller, dig(old, "spec", "controller") or "")
    yield from ingress_class(obj)
