"""Cells of nodes, component statuses, configmaps, quotas and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.shared_cells import NONE, UNKNOWN, condition

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def node_status(node: Tree) -> str:
    ready = condition(dig(node, "status", "conditions"), "Ready")
    if ready is None:
        status = "Unknown"
    else:
        status = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if dig(node, "spec", "unschedulable") else status


def node_roles(labels: Mapping[str, str] | None) -> str:
    present = labels or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in present if label.startswith(_ROLE_PREFIX)}
    roles.add(present.get(_ROLE, ""))
    return ",".join(sorted(roles - {""})) or NONE


def internal_address(addresses: list[Tree] | None) -> str:
    return _address(addresses, "InternalIP")


def external_address(addresses: list[Tree] | None) -> str:
    return _address(addresses, "ExternalIP")


def _address(addresses: list[Tree] | None, type: str) -> str:
    return next((one.get("address", "") for one in addresses or () if one.get("type") == type), NONE)


def kernel(info: Tree | None) -> str:
    info = info or {}
    version, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({architecture})" if architecture else version


def component_status(conditions: list[Tree] | None) -> str:
    healthy = condition(conditions, "Healthy")
    if healthy is None:
        return "Unknown"
    return "Healthy" if healthy.get("status") == "True" else "Unhealthy"


def component_message(conditions: list[Tree] | None) -> str:
    return _of_health(conditions, "message")


def component_error(conditions: list[Tree] | None) -> str:
    return _of_health(conditions, "error")


def _of_health(conditions: list[Tree] | None, member: str) -> str:
    text: str = (condition(conditions, "Healthy") or {}).get(member, "")
    return text


def config_map_size(config_map: Tree) -> int:
    return len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())


def used_requests(status: Tree | None) -> str:
    return _used(status or {}, limits=False)


def used_limits(status: Tree | None) -> str:
    return _used(status or {}, limits=True)


def _used(status: Tree, *, limits: bool) -> str:
    """How much of each resource is used, of limits or of everything else."""
    hard, used = status.get("hard") or {}, status.get("used") or {}
    shown = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in shown)


def event_count(event: Tree) -> int:
    series = event.get("series")
    count: int = event.get("count") or 1 if series is None else series.get("count", 0)
    return count


def event_object(reference: Tree | None) -> str:
    reference = reference or {}
    kind, name = reference.get("kind", "").lower(), reference.get("name")
    return f"{kind}/{name}" if name else kind


def event_source(event: Tree) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component
