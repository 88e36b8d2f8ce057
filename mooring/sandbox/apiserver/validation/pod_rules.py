"""Pods: new ones, and allowed changes of existing ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.errors import forbidden_value, invalid_value, required
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.changes import difference
from mooring.sandbox.apiserver.validation.fields import Causes, immutable, ip_address, text
from mooring.sandbox.apiserver.validation.names import between, dns_subdomain, qualified_name
from mooring.sandbox.apiserver.validation.pod_claims import claim_statuses, extended_claim
from mooring.sandbox.apiserver.validation.pod_spec import pod_annotations, pod_spec
from mooring.sandbox.apiserver.validation.scheduling import node_affinity_narrowed

_INT32_MAX: Final = 2**31 - 1
_MIRROR: Final = "kubernetes.io/config.mirror"
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_RESTART_ALL: Final = "RestartAllContainers"
_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")


def pod(obj: Tree) -> Causes:
    """Validate a pod, new or updated."""
    metadata, spec = obj["metadata"], obj["spec"]
    yield from pod_annotations("metadata.annotations", metadata.get("annotations"), spec)
    yield from pod_spec("spec", spec, metadata.get("name", ""))
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate(dig(volume, "projected", "sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    at = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    yield forbidden_value(at, "must not be specified when serviceAccountName is not set")


def pod_create(obj: Tree) -> Causes:
    yield from pod(obj)
    yield from new_pod(obj["spec"])


def new_pod(spec: Tree) -> Causes:
    if spec.get("ephemeralContainers"):
        yield forbidden_value("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden_value("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


# ---- updates --------------------------------------------------------------------------------------


def pod_update(obj: Tree, old: Tree) -> Causes:
    spec, before = obj["spec"], old["spec"]
    if spec == before:  # which was valid when it was stored
        yield from pod_annotations("metadata.annotations", obj["metadata"].get("annotations"), spec)
        yield from _annotation_changes(obj, old)
        return
    yield from pod(obj)
    yield from _annotation_changes(obj, old)
    for kind in ("containers", "initContainers"):
        now, then = spec.get(kind) or [], before.get(kind) or []
        if len(now) != len(then):
            yield forbidden_value(f"spec.{kind}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(now):
            if not container.get("image"):
                yield required(f"spec.{kind}[{index}].image")
    causes = list(_deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")))
    yield from causes
    if causes and spec.get("activeDeadlineSeconds") is not None:
        return
    yield from _tolerations_added(spec.get("tolerations") or [], before.get("tolerations") or [])
    yield from _gates_removed(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    yield from _rest_unchanged(spec, before)


def _annotation_changes(obj: Tree, old: Tree) -> Causes:
    new, before = obj["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    if new.get(_MIRROR) != before.get(_MIRROR):
        act = "remove or update" if _MIRROR in before else "add"
        yield forbidden_value(f"metadata.annotations[{_MIRROR}]", f"may not {act} mirror pod annotation")


def _deadline(new: int | None, old: int | None) -> Causes:
    at = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid_value(at, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _INT32_MAX:
        yield invalid_value(at, new, between(0, _INT32_MAX))
    elif old is not None and old < new:
        yield invalid_value(at, new, "must be less than or equal to previous value")


def _tolerations_added(new: Sequence[Tree], old: Sequence[Tree]) -> Causes:
    """Allow only additional tolerations, and changed seconds of present ones."""
    kept = {frozenset(_without(toleration, "tolerationSeconds").items()) for toleration in new}
    if not kept.issuperset(frozenset(_without(one, "tolerationSeconds").items()) for one in old):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_value("spec.tolerations", why)


def _gates_removed(new: Sequence[Tree], old: Sequence[Tree]) -> Causes:
    present = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in present:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield forbidden_value(f"spec.schedulingGates[{index}].name", why)


def _without(tree: Tree, *names: str) -> Tree:
    return {name: value for name, value in tree.items() if name not in names}


def _with(tree: Tree, other: Tree, *names: str) -> Tree:
    """Return the tree with members of another one."""
    return {**_without(tree, *names), **{name: other[name] for name in names if name in other}}


def _rest_unchanged(spec: Tree, old: Tree) -> Causes:
    """Nothing else may change: what may is masked with its old value."""
    masked = _with(spec, old, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    for kind in ("containers", "initContainers"):
        if masked.get(kind):
            masked[kind] = [
                _with(now, then, "image") for now, then in zip(masked[kind], old[kind], strict=True)
            ]
    period = old.get("terminationGracePeriodSeconds")
    if period is not None and period < 0 and masked.get("terminationGracePeriodSeconds") == 1:
        masked["terminationGracePeriodSeconds"] = period
    if old.get("schedulingGates"):
        yield from _narrowed(masked, old)
    if masked != old:
        yield forbidden_value("spec", f"{_MAY_CHANGE}\n{difference(old, masked)}")


def _narrowed(masked: Tree, old: Tree) -> Causes:
    """A gated pod may be restricted to fewer nodes; allowed changes are masked."""
    new, before = masked.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in before.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", new, why)
    masked.update(_with(masked, old, "nodeSelector"))
    _drop_absent(masked, old, "nodeSelector")
    now, then = dig(masked, "affinity", "nodeAffinity"), dig(old, "affinity", "nodeAffinity")
    if now == then:
        return
    yield from node_affinity_narrowed("spec.affinity.nodeAffinity", now, then)
    affinity = _with(masked.get("affinity") or {}, old.get("affinity") or {}, "nodeAffinity")
    if affinity or "affinity" in old:
        masked["affinity"] = affinity
    else:
        masked.pop("affinity", None)


def _drop_absent(masked: Tree, old: Tree, name: str) -> None:
    if name not in old:
        masked.pop(name, None)


# ---- subresources ---------------------------------------------------------------------------------


def pod_status(obj: Tree, old: Tree) -> Causes:
    yield from _annotation_changes(obj, old)
    status, before = obj.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        if condition.get("observedGeneration", 0) < 0:
            at, why = f"status.conditions[{index}].observedGeneration", "must be a non-negative integer"
            yield invalid_value(at, condition["observedGeneration"], why)
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            yield from text(f"status.conditions[{index}].Type", condition.get("type", ""), qualified_name)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        yield from text("status.nominatedNodeName", nominated, dns_subdomain)
        if old["spec"].get("nodeName"):
            why = "may not be set on pods that are already bound to a node"
            yield forbidden_value("status.nominatedNodeName", why)
    if status.get("observedGeneration", 0) < 0:
        why = "must be a non-negative integer"
        yield invalid_value("status.observedGeneration", status["observedGeneration"], why)
    yield from immutable("status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        if before.get(name):
            yield from _restarts(name, status.get(name) or (), before[name], old["spec"])
    for index, address in enumerate(status.get("podIPs") or ()):
        yield from ip_address(f"status.podIPs[{index}]", address.get("ip", ""))
    if status.get("resourceClaimStatuses"):
        yield from claim_statuses(status["resourceClaimStatuses"], old["spec"])
    if status.get("extendedResourceClaimStatus") is not None:
        yield from extended_claim(status["extendedResourceClaimStatus"], old["spec"])


def _restarts(name: str, new: Sequence[Tree], old: Sequence[Tree], spec: Tree) -> Causes:
    """A container that terminated for good must not be restarted, unless all containers may be."""
    everything = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    rules = [rule for one in everything for rule in one.get("restartPolicyRules") or ()]
    if name != "ephemeralContainerStatuses" and any(one["action"] == _RESTART_ALL for one in rules):
        return
    states = {status.get("name"): status.get("state") or {} for status in new}
    for index, status in enumerate(old):
        ended = dig(status, "state", "terminated")
        if ended is None or _starts_again(name, status.get("name", ""), ended.get("exitCode", 0), spec):
            continue
        if status.get("name") in states and "terminated" not in states[status["name"]]:
            why = "may not be transitioned to non-terminated state"
            yield forbidden_value(f"status.{name}[{index}].state", why)


def _starts_again(kind: str, name: str, code: int, spec: Tree) -> bool:
    if kind == "ephemeralContainerStatuses":
        return False
    members = spec.get("containers" if kind == "containerStatuses" else "initContainers") or ()
    container: Tree = next((one for one in members if one.get("name") == name), {})
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            if rule["action"] == "Restart":
                return True
            break
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def pod_ephemeral_containers(obj: Tree, old: Tree) -> Causes:
    """Ephemeral containers may be added, and must not change afterwards."""
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        yield forbidden_value("", "static pods do not support ephemeral containers")
        return
    yield from pod(obj)
    yield from _annotation_changes(obj, old)
    at = "spec.ephemeralContainers"
    present = {one.get("name"): one for one in obj["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in present:
            yield forbidden_value(at, f'existing ephemeral containers "{name}" may not be removed\n')
        elif present[name] != container:
            changes = difference(container, present[name])
            yield forbidden_value(at, f'existing ephemeral containers "{name}" may not be changed\n{changes}')
