"""Nodes, namespaces, leases, priority classes, disruption budgets, storage classes, CSI nodes."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.errors import (
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.claims import csi_driver
from mooring.sandbox.apiserver.validation.fields import (
    NEGATIVE,
    Causes,
    at_most_100_percent,
    immutable,
    int_or_percent,
    nonnegative,
    nonnegatives,
    one_of,
    text,
)
from mooring.sandbox.apiserver.validation.labels import label_selector, topology_terms
from mooring.sandbox.apiserver.validation.metadata import finalizer
from mooring.sandbox.apiserver.validation.names import qualified_name
from mooring.sandbox.apiserver.validation.pod_spec import PREEMPTION_POLICIES
from mooring.sandbox.apiserver.validation.resources import resource_value
from mooring.sandbox.apiserver.validation.scheduling import taints

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PREFIX: Final = "system-"
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PARAMETER_BYTES: Final = 256 * 1024
_MOST_PARAMETERS: Final = 512


# ---- nodes ----------------------------------------------------------------------------------------


def node(obj: Tree) -> Causes:
    if "taints" in obj["spec"]:
        yield from taints("metadata.taints", obj["spec"]["taints"] or ())
    yield from _node_resources(obj)


def _node_resources(obj: Tree) -> Causes:
    status = obj.get("status") or {}
    for name in ("capacity", "allocatable"):
        for resource, quantity in (status.get(name) or {}).items():
            yield from resource_value(f"status.{name}.{resource}", resource, quantity)


def node_update(obj: Tree, old: Tree) -> Causes:
    spec, before = obj["spec"], old["spec"]
    yield from _node_resources(obj)
    seen = set()
    for index, address in enumerate(dig(obj, "status", "addresses") or ()):
        shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
        if (key := tuple(shown.values())) in seen:
            yield duplicate(f"status.addresses[{index}]", shown)
        seen.add(key)
    for name, reported in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(name) and spec.get(name) != before[name]:
            why = f'node updates may not change {reported} except from "" to valid'
            yield forbidden_value(f"spec.{name}", why)
    yield from taints("metadata.taints", spec.get("taints") or ())


# ---- namespaces -----------------------------------------------------------------------------------


def namespace(obj: Tree) -> Causes:
    for name in dig(obj, "spec", "finalizers") or ():
        yield from finalizer("spec.finalizers", name)


def namespace_status(obj: Tree, old: Tree) -> Causes:
    phase, deleted = dig(obj, "status", "phase") or "", "deletionTimestamp" in obj["metadata"]
    if not deleted and phase != "Active":
        why = "may only be 'Active' if `deletionTimestamp` is empty"
        yield invalid_value("status.Phase", phase, why)
    if deleted and phase != "Terminating":
        why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        yield invalid_value("status.Phase", phase, why)


# ---- leases ---------------------------------------------------------------------------------------


def lease(obj: Tree) -> Causes:
    spec = obj.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid_value("spec.leaseTransitions", transitions, NEGATIVE)


# ---- priority classes -----------------------------------------------------------------------------


def priority_class(obj: Tree) -> Causes:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith(SYSTEM_PREFIX):
        problem = _system_class_problem(name, value, bool(obj.get("globalDefault")))
        if problem:
            why = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only."
            yield forbidden_value("metadata.name", f"{why} error: {problem}")
    elif value > HIGHEST_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden_value("value", why)
    if obj.get("preemptionPolicy") is not None:
        yield from one_of("preemptionPolicy", obj["preemptionPolicy"], PREEMPTION_POLICIES)


def _system_class_problem(name: str, value: int, is_default: bool) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def priority_class_update(obj: Tree, old: Tree) -> Causes:
    if obj.get("value", 0) != old.get("value", 0):
        yield forbidden_value("value", "may not be changed in an update.")
    yield from immutable("preemptionPolicy", obj.get("preemptionPolicy"), old.get("preemptionPolicy"))


# ---- disruption budgets ---------------------------------------------------------------------------


def disruption_budget(obj: Tree) -> Causes:
    spec = obj.get("spec") or {}
    both = ("minAvailable", "maxUnavailable")
    if all(spec.get(name) is not None for name in both):
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name in both:
        if spec.get(name) is not None:
            yield from int_or_percent(f"spec.{name}", spec[name])
            yield from at_most_100_percent(f"spec.{name}", spec[name])
    yield from label_selector("spec.selector", spec.get("selector"))
    policy, allowed = spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in allowed:
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, allowed)


def disruption_budget_status(obj: Tree, old: Tree) -> Causes:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    yield from nonnegatives("status", obj.get("status") or {}, *counts)


# ---- storage classes and CSI nodes ----------------------------------------------------------------


def storage_class(obj: Tree) -> Causes:
    provisioner, parameters = obj.get("provisioner", ""), obj.get("parameters") or {}
    if not provisioner:
        yield required("provisioner")
    else:
        for problem in qualified_name(provisioner.lower()):
            yield invalid_value("provisioner", provisioner.lower(), problem)
    if len(parameters) > _MOST_PARAMETERS:
        yield too_long("parameters", _MOST_PARAMETERS)
    elif sum(len(key) + len(value) for key, value in parameters.items()) > _PARAMETER_BYTES:
        yield too_long("parameters", _PARAMETER_BYTES)
    if "" in parameters:
        yield invalid_value("parameters", "", "field can not be empty.")
    policy, mode = obj.get("reclaimPolicy"), obj.get("volumeBindingMode")
    if policy and policy not in ("Delete", "Retain"):
        yield not_supported("reclaimPolicy", policy, ("Delete", "Retain"))
    yield from one_of("volumeBindingMode", mode, choices("storage_v1.StorageClass.volumeBindingMode"))
    yield from topology_terms("allowedTopologies", obj.get("allowedTopologies") or ())


def storage_class_update(obj: Tree, old: Tree) -> Causes:
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        yield from immutable(name, obj.get(name), old.get(name))


def csi_node(obj: Tree) -> Causes:
    names = set()
    for index, driver in enumerate(dig(obj, "spec", "drivers") or ()):
        at, name = f"spec.drivers[{index}]", driver.get("name", "")
        yield from csi_driver(f"{at}.name", name)
        if not driver.get("nodeID"):
            yield required(f"{at}.nodeID")
        yield from nonnegative(f"{at}.allocatable.count", dig(driver, "allocatable", "count"))
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        for key in driver.get("topologyKeys") or ():
            yield from text(at, key, qualified_name)


def csi_node_update(obj: Tree, old: Tree) -> Causes:
    yield from csi_node(obj)
    before = {driver.get("name"): driver for driver in dig(old, "spec", "drivers") or ()}
    for driver in dig(obj, "spec", "drivers") or ():
        was = before.get(driver.get("name"))
        if was is not None:
            yield from immutable("spec.drivers", _fixed(driver), _fixed(was))


def _fixed(driver: Tree) -> Tree:
    return {name: value for name, value in driver.items() if name != "allocatable"}
