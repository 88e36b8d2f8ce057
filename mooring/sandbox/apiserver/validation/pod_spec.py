"""The spec of pods and of pod templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mooring.api.quantity import parse
from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.validation.containers import (
    PodParts,
    containers,
    ephemeral_containers,
    init_containers,
)
from mooring.sandbox.apiserver.validation.fields import Causes, Text, ip_address, one_of, required_text, text
from mooring.sandbox.apiserver.validation.groups import scheduling_group
from mooring.sandbox.apiserver.validation.labels import labels
from mooring.sandbox.apiserver.validation.metadata import validate_annotations
from mooring.sandbox.apiserver.validation.names import between, dns_label, dns_subdomain, qualified_name
from mooring.sandbox.apiserver.validation.pod_volumes import volumes
from mooring.sandbox.apiserver.validation.resources import (
    is_huge_pages,
    pod_resource_name,
    resource_requirements,
)
from mooring.sandbox.apiserver.validation.scheduling import (
    affinity,
    scheduling_gates,
    spread_constraints,
    tolerations,
)
from mooring.sandbox.apiserver.validation.security import pod_security
from mooring.sandbox.apiserver.validation.totals import aggregate_texts

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_LONGEST_HOSTNAME: Final = 64
_INT32_MAX: Final = 2**31 - 1
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_MIRROR: Final = "kubernetes.io/config.mirror"
_MOST_VALID: Final = 1024
_valid_specs: set[bytes] = set()
"""Specs of templates that were found to be valid."""
_COST = re.compile(r"0|[+-]?[1-9][0-9]{0,9}", re.ASCII)


def _named(rule: Text) -> Callable[[str, str], Causes]:
    return lambda path, value: text(path, value, rule)


def _readiness_gates(path: str, gates: Sequence[Tree]) -> Causes:
    for index, gate in enumerate(gates):
        yield from text(f"{path}[{index}].conditionType", gate.get("conditionType", ""), qualified_name)


def _host_aliases(path: str, aliases: Sequence[Tree]) -> Causes:
    for index, alias in enumerate(aliases):
        yield from ip_address(f"{path}[{index}].ip", alias.get("ip", ""))
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from text(f"{path}[{index}].hostnames[{number}]", name, dns_subdomain)


def _preemption_policy(path: str, policy: str) -> Causes:
    yield from one_of(path, policy, PREEMPTION_POLICIES)


def _overhead(path: str, overhead: Tree) -> Causes:
    yield from resource_requirements(path, {"limits": overhead})


def _system(path: str, system: Tree) -> Causes:
    name = system.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif name not in ("linux", "windows"):
        yield not_supported(path, name, ("linux", "windows"))


_MEMBERS: Final[tuple[tuple[str, Callable[[str, Any], Causes]], ...]] = (
    ("nodeSelector", labels),
    ("affinity", affinity),
    ("readinessGates", _readiness_gates),
    ("schedulingGates", scheduling_gates),
    ("topologySpreadConstraints", spread_constraints),
    ("serviceAccountName", _named(dns_subdomain)),
    ("nodeName", _named(dns_subdomain)),
    ("hostname", _named(dns_label)),
    ("subdomain", _named(dns_label)),
    ("tolerations", tolerations),
    ("hostAliases", _host_aliases),
    ("priorityClassName", _named(dns_subdomain)),
    ("runtimeClassName", _named(dns_subdomain)),
    ("preemptionPolicy", _preemption_policy),
    ("overhead", _overhead),
    ("os", _system),
    ("schedulingGroup", scheduling_group),
)
"""Rules of optional members."""


def pod_spec(path: str, spec: Tree, pod: str | None) -> Causes:
    """`pod` is the name of the pod; None for a template."""
    if spec.get("terminationGracePeriodSeconds") is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    yield from _parts(path, spec, pod)
    if spec.get("resources") is not None:
        yield from _pod_resources(path, spec)
    if spec.get("hostNetwork"):
        yield from _host_network(path, spec, pod is not None)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        yield from one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        yield from one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    if spec.get("hostnameOverride") is not None:
        yield from _hostname_override(f"{path}.hostnameOverride", spec)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, between(1, _INT32_MAX))
    if spec.get("securityContext"):
        yield from pod_security(f"{path}.securityContext", spec["securityContext"], spec)
    for name, rule in _MEMBERS:
        if name in spec and spec[name] not in (None, ""):
            yield from rule(f"{path}.{name}", spec[name])


def _hostname_override(path: str, spec: Tree) -> Causes:
    for name in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(name):
            yield forbidden_value(path, f"may not be specified when {name} is true")
    if len(spec["hostnameOverride"]) > _LONGEST_HOSTNAME:
        yield too_long(path, _LONGEST_HOSTNAME)
    yield from text(path, spec["hostnameOverride"], dns_subdomain)


def _parts(path: str, spec: Tree, pod: str | None) -> Causes:
    """Validate volumes, claims and the containers that use them."""
    volumes_by_name: dict[str, Tree] = {}
    if spec.get("volumes"):
        volumes_by_name, causes = volumes(f"{path}.volumes", spec["volumes"], pod or "")
        yield from causes
    claims = spec.get("resourceClaims") or ()
    if claims:
        yield from _resource_claims(f"{path}.resourceClaims", claims)
    parts = PodParts(
        volumes_by_name,
        {claim["name"] for claim in claims if claim.get("name")},
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", ""),
        pod is not None,
        spec.get("hostUsers"),
    )
    regular, initial = spec.get("containers") or (), spec.get("initContainers") or ()
    yield from containers(f"{path}.containers", regular, parts)
    if initial:
        yield from init_containers(f"{path}.initContainers", initial, regular, parts)
    ephemeral = spec.get("ephemeralContainers")
    if ephemeral:
        yield from ephemeral_containers(f"{path}.ephemeralContainers", ephemeral, (*regular, *initial), parts)


def _resource_claims(path: str, claims: Iterable[Tree]) -> Causes:
    seen = set()
    for index, claim in enumerate(claims):
        at, name = f"{path}[{index}]", claim.get("name", "")
        if name in seen and name:
            yield duplicate(f"{at}.name", name)
        else:
            yield from required_text(f"{at}.name", name, dns_label)
        seen.add(name)
        sources = ("resourceClaimName", "resourceClaimTemplateName")
        present = [source for source in sources if claim.get(source) is not None]
        shown = {"Name": name, **{one[:1].upper() + one[1:]: claim.get(one) for one in sources}}
        if len(present) != 1:
            named = "`resourceClaimName` or `resourceClaimTemplateName`"
            why = (
                f"at most one of {named} may be specified"
                if present
                else ("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            )
            yield invalid_value(at, shown, why)
        for source in present:
            yield from text(f"{at}.{source}", claim[source], dns_subdomain)


def _host_network(path: str, spec: Tree, is_pod: bool) -> Causes:
    """Container ports equal host ports in the host network."""
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host, own = port.get("hostPort", 0), port.get("containerPort", 0)
            if (is_pod or host) and host != own:
                why = "must match `containerPort` when `hostNetwork` is true"
                yield invalid_value(f"{path}.containers[{index}].ports[{number}].hostPort", host, why)


# ---- resources of the pod as a whole --------------------------------------------------------------


def _pod_resources(path: str, spec: Tree) -> Causes:
    at, resources = f"{path}.resources", spec["resources"]
    if resources.get("claims"):
        yield forbidden_value(f"{at}.claims", "claims may not be set for Resources at pod-level")
    yield from resource_requirements(at, {**resources, "claims": None}, (), pod_resource_name)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in aggregate_texts(spec, "requests").items():
        if name in requests and parse(total) > parse(requests[name]):
            why = f"must be greater than or equal to aggregate container requests of {total}"
            yield invalid_value(f"{at}.requests[{name}]", requests[name], why)
    for name, total in aggregate_texts(spec, "limits").items():
        if is_huge_pages(name) and name in limits and parse(total) > parse(limits[name]):
            why = f"must be greater than or equal to aggregate container limits of {total}"
            yield invalid_value(f"{at}.limits[{name}]", limits[name], why)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and parse(limit) > parse(limits[name]):
                why = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid_value(f"{at}.containers[{index}][{name}].limits", limit, why)


# ---- what stands beside the spec ------------------------------------------------------------------


def pod_annotations(path: str, annotations: Tree | None, spec: Tree) -> Causes:
    """Validate annotations of pods that Kubernetes interprets."""
    if not annotations:
        return
    if _MIRROR in annotations and not spec.get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid_value(f"{path}[{_MIRROR}]", annotations[_MIRROR], why)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_COST.fullmatch(cost) and -_INT32_MAX - 1 <= int(cost) <= _INT32_MAX):
        yield invalid_value(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def _template_spec(path: str, spec: Tree) -> Causes:
    """A valid spec comes again: from a CronJob to its Jobs, from a Deployment to its ReplicaSets."""
    key = encode_json(spec)
    if key in _valid_specs:
        return
    causes = list(pod_spec(path, spec, None))
    if not causes:
        if len(_valid_specs) >= _MOST_VALID:
            _valid_specs.clear()
        _valid_specs.add(key)
    yield from causes


def pod_template(path: str, template: Tree) -> Causes:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from labels(f"{path}.labels", metadata.get("labels"))
    yield from validate_annotations(f"{path}.annotations", metadata.get("annotations"))
    yield from pod_annotations(f"{path}.annotations", metadata.get("annotations"), spec)
    yield from _template_spec(f"{path}.spec", spec)
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        yield forbidden_value(f"{path}.spec.ephemeralContainers", why)
