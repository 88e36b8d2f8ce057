"""eviction: a delete subject to disruption budgets."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mooring.api.meta import LabelSelector
from mooring.api.selectors import SelectorError, compile_selector
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.calls import TooLongError
from mooring.sandbox.apiserver.context.drafting import LARGE
from mooring.sandbox.apiserver.context.options import DeleteOptions, WriteOptions
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import bad_request, forbidden, internal, not_found, too_many_requests
from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.store.record import key_of
from mooring.sandbox.apiserver.verbs.body import read_object
from mooring.sandbox.apiserver.verbs.creating import stored
from mooring.sandbox.apiserver.verbs.deleting import delete
from mooring.sandbox.apiserver.verbs.options import delete_options
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TreeAnswer

_BUDGETS = "poddisruptionbudgets.policy"
_MOST_DISRUPTED = 2000
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class _Verdict(NamedTuple):
    """A budget that allows the eviction, and whether it is counted in its status."""

    budget: Tree
    counted: bool


def evict(request: Request) -> Answer:
    """POST …/pods/NAME/eviction. Raises 429 if a budget does not allow it."""
    write = request.write("CREATE")
    subresource = request.subresource
    assert subresource is not None
    eviction = read_object(write, request.body, request.content_type, subresource.codec, subresource.kind)
    if (dig(eviction, "metadata", "name") or request.name) != request.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = delete_options({}, eviction.get("deleteOptions") or {})
    if options.dry_run and not write.options.dry_run:
        write.options = msgspec.structs.replace(write.options, dry_run=True)
    pod = request.api.read("pods", request.name, request.namespace)
    if pod is None:
        raise not_found("", "pods", request.name)
    request.api.admission.admit(write, eviction, None)
    request.api.admission.validate(write, eviction, None)
    verdict = _ask_budgets(write, pod)
    if verdict is not None and verdict.counted:
        _count(write, verdict.budget)
    _evict(write, pod, options)
    return TreeAnswer(_SUCCESS, 201)


def _ask_budgets(write: Write, pod: Tree) -> _Verdict | None:
    """Return the verdict of the pod's budget, or None if none applies. Raises if it forbids the eviction, and
    TooLongError if there is much to read."""
    phase = dig(pod, "status", "phase")
    if phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]:
        return None
    table = write.api.store.table(_BUDGETS)
    size = sum(len(table.records[key].tail) for key in table.keys(write.namespace))
    if size >= LARGE and not write.api.may_take_long:
        raise TooLongError
    budgets = [one for one in write.api.read_all(_BUDGETS, write.namespace) if _covers(one, pod)]
    if not budgets:
        return None
    if len(budgets) > 1:
        raise internal(_SEVERAL)
    budget = budgets[0]
    if not _ready(pod):
        status = budget.get("status") or {}
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0:
            return _Verdict(budget, False)
    _check(budget)
    return _Verdict(budget, True)


def _covers(budget: Tree, pod: Tree) -> bool:
    selector = dig(budget, "spec", "selector")
    if selector is None:
        return False
    try:
        compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return compiled.matches(pod["metadata"].get("labels") or {})


def _ready(pod: Tree) -> bool:
    conditions = dig(pod, "status", "conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _refusal(message: str, retry_after: int) -> ApiError:
    cause = {"reason": "DisruptionBudget", "message": message}
    violated = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(violated, retry_after, [cause])


def _check(budget: Tree) -> None:
    """Raise if the budget allows no disruption now."""
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        needs = f"needs {desired} healthy pods and has {healthy} currently"
        raise _refusal(f"The disruption budget {name} {needs}", 0)


def _count(write: Write, budget: Tree) -> None:
    """Record the eviction in the budget's status until its controller sees the pod deleted."""
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), write.name: write.api.now()}
    _store(write, _resource(write, "policy", "poddisruptionbudgets"), budget)


def _evict(write: Write, pod: Tree, options: DeleteOptions) -> None:
    status = pod.setdefault("status", {})
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": write.api.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    others = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionTarget"]
    status["conditions"] = [*others, target]
    if options.resource_version is None:  # a precondition on the version would no longer hold
        _store(write, write.resource, pod)
    deletion = Write(
        write.api,
        write.resource,
        write.namespace,
        write.name,
        write.user,
        WriteOptions(dry_run=write.options.dry_run),
        "DELETE",
    )
    delete(deletion, options, admitted=True)


def _resource(write: Write, group: str, plural: str) -> Resource:
    resource = write.api.registry.find(group, "v1", plural)
    assert resource is not None
    return resource


def _store(write: Write, resource: Resource, obj: Tree) -> None:
    """Write an object as the server itself, without admission and validation."""
    own = Write(
        write.api,
        resource,
        write.namespace,
        obj["metadata"]["name"],
        write.user,
        WriteOptions(dry_run=write.options.dry_run),
        "UPDATE",
    )
    stored(own, key_of(write.namespace, own.name), obj)
