"""Kinds that keep a number of pods from a template: Deployment, ReplicaSet, StatefulSet, DaemonSet,
ReplicationController."""

from __future__ import annotations

from typing import Any, Final

from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, not_supported, required
from mooring.sandbox.apiserver.kinds.facts import choices
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.claims import claim_spec
from mooring.sandbox.apiserver.validation.fields import (
    Causes,
    amount,
    at_most_100_percent,
    immutable,
    int_or_percent,
    nonnegative,
    nonnegatives,
    optional_choice,
    text,
)
from mooring.sandbox.apiserver.validation.labels import is_empty, label_selector, matches
from mooring.sandbox.apiserver.validation.names import dns_label
from mooring.sandbox.apiserver.validation.pod_spec import pod_template

_UNMATCHED: Final = "`selector` does not match template `labels`"
_STATEFUL_MAY_CHANGE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _selector(spec: Tree, kind: str) -> Causes:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from label_selector("spec.selector", selector)
    if is_empty(selector):
        yield invalid_value("spec.selector", selector, f"empty selector is invalid for {kind}")


def _selects(spec: Tree) -> Causes:
    """The selector must match the labels of the template."""
    selector, template_labels = spec.get("selector"), dig(spec, "template", "metadata", "labels")
    if selector is None or (not is_empty(selector) and matches(selector, template_labels) is False):
        yield invalid_value("spec.template.metadata.labels", template_labels, _UNMATCHED)


def _template(spec: Tree, kind: str) -> Causes:
    yield from pod_template("spec.template", spec.get("template") or {})
    yield from _long_running(spec, kind)


def _long_running(spec: Tree, kind: str) -> Causes:
    """Only the restart policy Always is allowed."""
    policy = dig(spec, "template", "spec", "restartPolicy") or ""
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if dig(spec, "template", "spec", "activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden_value("spec.template.spec.activeDeadlineSeconds", why)


def _unreadable(spec: Tree, why: str) -> Causes:
    selector = spec.get("selector")
    if selector is not None and matches(selector, {}) is None:
        yield invalid_value("spec.selector", selector, why)


def replicas_within(path: str, status: Tree, *names: str) -> Causes:
    """Validate the counts of a status: none exceeds the total, and available replicas are ready."""
    total, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    for name in names:
        if status.get(name, 0) > total:
            why = "cannot be greater than status.replicas"
            yield invalid_value(f"{path}.{name}", status.get(name, 0), why)
    available = status.get("availableReplicas", 0)
    if available > ready:
        yield invalid_value(f"{path}.availableReplicas", available, "cannot be greater than readyReplicas")


# ---- Deployment and ReplicaSet --------------------------------------------------------------------


def deployment(obj: Tree) -> Causes:
    spec = obj["spec"]
    yield from nonnegative("spec.replicas", spec.get("replicas"))
    yield from _selector(spec, "deployment")
    unreadable = list(_unreadable(spec, "invalid label selector"))
    yield from unreadable
    if not unreadable:
        yield from _selects(spec)
        yield from _template(spec, "ReplicaSet")
    yield from _strategy(spec.get("strategy") or {})
    yield from nonnegatives(
        "spec", spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _strategy(strategy: Tree) -> Causes:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            why = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden_value("spec.strategy.rollingUpdate", why)
    elif kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield not_supported("spec.strategy", shown, choices("apps_v1.DeploymentStrategy.type"))
    else:
        at = "spec.strategy.rollingUpdate"
        unavailable, surge = (rolling or {}).get("maxUnavailable", 0), (rolling or {}).get("maxSurge", 0)
        yield from int_or_percent(f"{at}.maxUnavailable", unavailable)
        yield from int_or_percent(f"{at}.maxSurge", surge)
        if amount(unavailable) == 0 and amount(surge) == 0:
            yield invalid_value(f"{at}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        yield from at_most_100_percent(f"{at}.maxUnavailable", unavailable)


def deployment_update(obj: Tree, old: Tree) -> Causes:
    yield from deployment(obj)
    yield from _same_selector(obj, old)


def _same_selector(obj: Tree, old: Tree) -> Causes:
    yield from immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))


def deployment_status(obj: Tree, old: Tree) -> Causes:
    status = obj.get("status") or {}
    counts = (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    )  # fmt: skip
    yield from nonnegatives("status", status, *counts)
    yield from replicas_within("status", status, "updatedReplicas", "readyReplicas", "availableReplicas")
    yield from _collisions(status, old.get("status") or {})


def _collisions(status: Tree, old: Tree) -> Causes:
    if status.get("collisionCount", 0) < old.get("collisionCount", 0):
        yield invalid_value("status.collisionCount", status.get("collisionCount", 0), "cannot be decremented")


def replica_set(obj: Tree) -> Causes:
    spec = obj["spec"]
    yield from nonnegatives("spec", spec, "replicas", "minReadySeconds")
    yield from _selector(spec, "deployment")
    unreadable = list(_unreadable(spec, "invalid label selector"))
    yield from unreadable
    if not unreadable:
        yield from _selects(spec)
        yield from _template(spec, "ReplicaSet")


def replica_set_update(obj: Tree, old: Tree) -> Causes:
    yield from replica_set(obj)
    yield from _same_selector(obj, old)


def replica_set_status(obj: Tree, old: Tree) -> Causes:
    status = obj.get("status") or {}
    counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from nonnegatives(
        "status", status, "replicas", *counts, "observedGeneration", "terminatingReplicas"
    )
    yield from replicas_within("status", status, *counts)


# ---- StatefulSet ----------------------------------------------------------------------------------


def stateful_set(obj: Tree) -> Causes:
    yield from _stateful_spec(obj["spec"])
    for index, template in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
        yield from claim_spec(f"spec.volumeClaimTemplates[{index}].spec", template.get("spec") or {})
    if obj["spec"].get("serviceName"):
        yield from text("spec.serviceName", obj["spec"]["serviceName"], dns_label)


def _stateful_spec(spec: Tree) -> Causes:
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        why = "must be 'OrderedReady' or 'Parallel'"
        yield invalid_value("spec.podManagementPolicy", policy, why)
    yield from _stateful_strategy(spec.get("updateStrategy") or {})
    for name in ("whenDeleted", "whenScaled"):
        choice = dig(spec, "persistentVolumeClaimRetentionPolicy", name)
        at = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
        yield from optional_choice(at, choice, ("Retain", "Delete"))
    yield from nonnegatives("spec", spec, "replicas", "minReadySeconds")
    yield from nonnegative("spec.ordinals.start", dig(spec, "ordinals", "start"))
    yield from _selector(spec, "statefulset")
    unreadable = list(_unreadable(spec, ""))
    yield from unreadable
    if not unreadable:
        yield from _selects(spec)
        yield from pod_template("spec.template", _as_controlled(spec))
    yield from _long_running(spec, "StatefulSet")


def _as_controlled(spec: Tree) -> Tree:
    """Return the template with what the controller adds: volumes of the claims, and generated names."""
    template: Tree = spec.get("template") or {}
    pod = {
        name: value
        for name, value in (template.get("spec") or {}).items()
        if name not in ("subdomain", "hostname")
    }
    claims = [dig(claim, "metadata", "name") or "" for claim in spec.get("volumeClaimTemplates") or ()]
    if claims:
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        own = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
        pod["volumes"] = made + own
    return {**template, "spec": pod}


def _stateful_strategy(strategy: Tree) -> Causes:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        if rolling is not None:
            why = "only allowed for updateStrategy 'RollingUpdate'"
            shown = {
                "Partition": rolling.get("partition", 0),
                "MaxUnavailable": rolling.get("maxUnavailable"),
            }
            yield invalid_value(f"{at}.rollingUpdate", shown, why)
    elif kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield invalid_value(at, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield from nonnegative(f"{at}.rollingUpdate.partition", rolling.get("partition"))


def stateful_set_update(obj: Tree, old: Tree) -> Causes:
    yield from _stateful_spec(obj["spec"])
    if _fixed(obj["spec"]) != _fixed(old["spec"]):
        yield forbidden_value("spec", _STATEFUL_FIXED)


def _fixed(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if name not in _STATEFUL_MAY_CHANGE}


def stateful_set_status(obj: Tree, old: Tree) -> Causes:
    status = obj.get("status") or {}
    counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    yield from nonnegatives("status", status, "replicas", *counts, "observedGeneration", "collisionCount")
    total, why = status.get("replicas", 0), "cannot be greater than status.replicas"
    for name in counts:
        if status.get(name, 0) > total:
            yield invalid_value(f"status.{name}", status.get(name, 0), why)
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        why = "cannot be greater than status.readyReplicas"
        yield invalid_value("status.availableReplicas", available, why)
    yield from _collisions(status, old.get("status") or {})


# ---- DaemonSet ------------------------------------------------------------------------------------


def daemon_set(obj: Tree) -> Causes:
    spec = obj["spec"]
    selector, template_labels = spec.get("selector"), dig(spec, "template", "metadata", "labels")
    yield from label_selector("spec.selector", selector)
    if selector is None or matches(selector, template_labels) is False:
        yield invalid_value("spec.template.metadata.labels", template_labels, _UNMATCHED)
    if selector is not None and is_empty(selector):
        yield invalid_value("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from _template(spec, "DaemonSet")
    yield from nonnegatives("spec", spec, "minReadySeconds", "revisionHistoryLimit")
    yield from _daemon_strategy(spec.get("updateStrategy") or {})


def _daemon_strategy(strategy: Tree) -> Causes:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield not_supported(at, shown, ("RollingUpdate", "OnDelete"))
        return
    limits: dict[str, Any] = rolling or {}
    for name in ("maxUnavailable", "maxSurge"):
        yield from int_or_percent(f"{at}.rollingUpdate.{name}", limits.get(name, 0))
        yield from at_most_100_percent(f"{at}.rollingUpdate.{name}", limits.get(name, 0))
    unavailable, surge = amount(limits.get("maxUnavailable")), amount(limits.get("maxSurge"))
    if unavailable and surge:
        why = "may not be set when maxUnavailable is non-zero"
        yield invalid_value(f"{at}.rollingUpdate.maxSurge", limits["maxSurge"], why)
    elif not unavailable and not surge:
        yield required(f"{at}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0")


def daemon_set_update(obj: Tree, old: Tree) -> Causes:
    yield from _same_selector(obj, old)
    yield from daemon_set(obj)


def daemon_set_status(obj: Tree, old: Tree) -> Causes:
    status = obj.get("status") or {}
    counts = (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
        "collisionCount",
    )  # fmt: skip
    yield from nonnegatives("status", status, *counts)
    yield from _collisions(status, old.get("status") or {})


# ---- ReplicationController, PodTemplate -----------------------------------------------------------


def replication_controller(obj: Tree) -> Causes:
    spec = obj["spec"]
    selector, template_labels = spec.get("selector") or {}, dig(spec, "template", "metadata", "labels")
    yield from nonnegative("spec.minReadySeconds", spec.get("minReadySeconds"))
    if not selector:
        yield required("spec.selector")
    yield from nonnegative("spec.replicas", spec.get("replicas"))
    if spec.get("template") is None:
        yield required("spec.template")
        return
    if any((template_labels or {}).get(key) != value for key, value in selector.items()):
        yield invalid_value("spec.template.metadata.labels", template_labels, _UNMATCHED)
    yield from _template(spec, "ReplicationController")


def pod_template_object(obj: Tree) -> Causes:
    yield from pod_template("template", obj.get("template") or {})
