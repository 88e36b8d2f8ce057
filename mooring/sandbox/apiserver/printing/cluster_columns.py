"""Nodes, namespaces, quotas, leases, priorities, events and what else is of the cluster as a whole."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.apiserver.printing.columns import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    at,
    boolean,
    count,
    integer,
    name_of,
    number,
    of,
    wide,
)
from mooring.sandbox.apiserver.printing.texts import NONE, UNKNOWN, condition

# ---- nodes ----------------------------------------------------------------------------------------

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"
_NODE_INFO: Final = "core_v1.NodeSystemInfo"


def _node_status(node: Tree) -> str:
    ready = condition(dig(node, "status", "conditions"), "Ready")
    if ready is None:
        status = "Unknown"
    else:
        status = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if dig(node, "spec", "unschedulable") else status


def _roles(node: Tree) -> str:
    found = node["metadata"].get("labels") or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in found if label.startswith(_ROLE_PREFIX)}
    roles.add(found.get(_ROLE, ""))
    return ",".join(sorted(roles - {""})) or NONE


def _address(type: str) -> Cell:
    def address(node: Tree) -> str:
        for found in dig(node, "status", "addresses") or ():
            if found.get("type") == type:
                text: str = found.get("address", "")
                return text
        return NONE

    return of(address)


def _info(member: str) -> Cell:
    return of(lambda node: dig(node, "status", "nodeInfo", member) or UNKNOWN)


def _kernel(node: Tree) -> str:
    info = dig(node, "status", "nodeInfo") or {}
    version, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({architecture})" if architecture else version


# ---- quotas ---------------------------------------------------------------------------------------


def _quota(limits: bool) -> Cell:
    """How much of each resource is used up, of limits or of everything else."""

    def used(quota: Tree) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        shown = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in shown)

    return of(used)


# ---- events ---------------------------------------------------------------------------------------


def _first_seen(event: Tree, ages: Ages) -> str:
    return ages.since(event.get("firstTimestamp") or event.get("eventTime"))


def _last_seen(event: Tree, ages: Ages) -> str:
    series = event.get("series")
    if series is not None:
        return ages.since(series.get("lastObservedTime"))
    last = event.get("lastTimestamp")
    return ages.since(last) if last else _first_seen(event, ages)


def _event_count(event: Tree) -> int:
    series = event.get("series")
    found: int = event.get("count") or 1 if series is None else series.get("count", 0)
    return found


def _event_object(event: Tree) -> str:
    found = event.get("involvedObject") or {}
    kind, name = found.get("kind", "").lower(), found.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(event: Tree) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _component_status(component: Tree) -> str:
    healthy = condition(component.get("conditions"), "Healthy")
    if healthy is None:
        return "Unknown"
    return "Healthy" if healthy.get("status") == "True" else "Unhealthy"


def _of_component(member: str) -> Cell:
    return of(lambda obj: (condition(obj.get("conditions"), "Healthy") or {}).get(member, ""))


PRINTERS: Final = {
    "nodes": Printer(
        NAME,
        Column("Status", of(_node_status), "The status of the node"),
        Column("Roles", of(_roles), "The roles of the node"),
        AGE,
        Column("Version", at("status", "nodeInfo", "kubeletVersion"), f"{_NODE_INFO}.kubeletVersion"),
        wide("Internal-IP", _address("InternalIP"), "core_v1.NodeStatus.addresses"),
        wide("External-IP", _address("ExternalIP"), "core_v1.NodeStatus.addresses"),
        wide("OS-Image", _info("osImage"), f"{_NODE_INFO}.osImage"),
        wide("Kernel-Version", of(_kernel), f"{_NODE_INFO}.kernelVersion"),
        wide("Container-Runtime", _info("containerRuntimeVersion"), f"{_NODE_INFO}.containerRuntimeVersion"),
    ),
    "namespaces": Printer(NAME, Column("Status", at("status", "phase"), "The status of the namespace"), AGE),
    "componentstatuses": Printer(
        NAME,
        Column("Status", of(_component_status), "Status of the component conditions"),
        Column("Message", _of_component("message"), "Message of the component conditions"),
        Column("Error", _of_component("error"), "Error of the component conditions"),
    ),
    "configmaps": Printer(
        NAME,
        Column(
            "Data",
            of(lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
            "core_v1.ConfigMap.data",
        ),
        AGE,
    ),
    "secrets": Printer(
        NAME,
        Column("Type", at("type"), "core_v1.Secret.type"),
        Column("Data", count("data"), "core_v1.Secret.data"),
        AGE,
    ),
    "serviceaccounts": Printer(NAME, AGE),
    "resourcequotas": Printer(
        NAME,
        Column(
            "Request",
            _quota(limits=False),
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        Column(
            "Limit",
            _quota(limits=True),
            "Limits control the maximum amount of cpu/memory that a container may use independent of "
            "contention on the node.",
        ),
        AGE,
    ),
    "events": Printer(
        Column("Last Seen", _last_seen, "core_v1.Event.lastTimestamp"),
        Column("Type", at("type"), "core_v1.Event.type"),
        Column("Reason", at("reason"), "core_v1.Event.reason"),
        Column("Object", of(_event_object), "core_v1.Event.involvedObject"),
        wide("Subobject", at("involvedObject", "fieldPath"), "core_v1.ObjectReference.fieldPath"),
        wide("Source", of(_event_source), "core_v1.Event.source"),
        Column("Message", of(lambda event: event.get("message", "").strip()), "core_v1.Event.message"),
        wide("First Seen", _first_seen, "core_v1.Event.firstTimestamp"),
        wide("Count", of(_event_count), "core_v1.Event.count"),
        wide("Name", of(name_of), "meta_v1.ObjectMeta.name", format="name"),
    ),
    "leases.coordination.k8s.io": Printer(
        NAME,
        Column("Holder", at("spec", "holderIdentity"), "coordination_v1.LeaseSpec.holderIdentity"),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        NAME,
        integer("Value", number("value"), "scheduling_v1.PriorityClass.value"),
        boolean(
            "Global-Default", at("globalDefault", default=False), "scheduling_v1.PriorityClass.globalDefault"
        ),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy"), "scheduling_v1.PriorityClass.preemptionPolicy"),
    ),
    "runtimeclasses.node.k8s.io": Printer(NAME, Column("Handler", at("handler")), AGE),
}
