"""A change that was seen to work, as an action: what to do, and the command that does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from mooring.api.objects import Pod
from mooring.api.resources import CPU, MEMORY
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.explain import alterations, commands, words
from mooring.explain.alterations import Alteration
from mooring.explain.blockers import port_holders
from mooring.explain.refusing import Rows
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.engine_nodes import EngineNode

LARGER_NODE = "largerNode"
_RESERVED_LABELS = ("kubernetes.io/", "k8s.io/")  # set by Kubernetes: to change them by hand is no advice


class Action(NamedTuple):
    text: str
    command: str = ""
    kind: str = ""  # where it is not the alteration's


def actions(alteration: Alteration, rehearsal: Rehearsal, rows: Rows) -> list[Action]:
    """Return what to do so that these rows take the pod."""
    if alteration.kind == "resource":
        return [each for each in _resource(alteration, rehearsal, rows) if each is not None]
    return [_action(alteration, rehearsal, rehearsal.nodes[int(rows[0])])]


def _action(alteration: Alteration, rehearsal: Rehearsal, node: EngineNode) -> Action:
    match alteration.kind:
        case "resourceName":
            return _resource_name(alteration, rehearsal.pod.pod)
        case "uncordon":
            return Action(f"uncordon {node.name}", commands.kubectl("uncordon", node.name))
        case "toleration":
            return _toleration(alteration, rehearsal.pod.pod, node)
        case "nodeSelector" if alteration.key and not _is_reserved(alteration.key):
            return _label(alteration, rehearsal, node)
        case "topologySpread" if alteration.number >= 0:
            return _spread(alteration, rehearsal)
        case "hostPort":
            return _host_port(alteration, node)
        case "volume":
            return _volume(alteration, rehearsal)
        case "claim":
            return Action(alteration.text, alteration.key)
    patch = alteration.patch
    return Action(alteration.text, "" if patch is None else commands.patch_spec(rehearsal.pod.pod, patch))


# ---- resources


def _resource(alteration: Alteration, rehearsal: Rehearsal, rows: Rows) -> tuple[Action | None, ...]:
    if not alteration.key:
        return (_larger_node(rehearsal, rows),)
    return _smaller_request(alteration.key, rehearsal, rows), _larger_node(rehearsal, rows)


def _smaller_request(resource: str, rehearsal: Rehearsal, rows: Rows) -> Action | None:
    free = rehearsal.nodes.free[resource][rows]
    best = int(free.argmax())
    most, requested = int(free[best]), rehearsal.pod.requests[resource]
    if most <= 0:
        return None  # to request nothing is no advice
    name = rehearsal.nodes.names[rows[best]]
    if most >= requested:  # a plugin that needs more than the pod requests, or nominated pods
        return Action(f"request less {resource}")
    there = words.amount(resource, most)
    now = words.amount(resource, requested)
    text = f"request at most {there} {resource} instead of {now}, as {name} has free"
    return Action(text, _set_request(rehearsal.pod.pod, resource, requested - most))


def _larger_node(rehearsal: Rehearsal, rows: Rows) -> Action | None:
    """A node as these are, but with enough of everything."""
    requests = {name: count for name, count in rehearsal.pod.requests.items() if count}
    offered, nodes = rehearsal.nodes.allocatable, rehearsal.nodes
    if all(int(offered[name][rows].max()) >= count for name, count in requests.items()):
        return None
    lacking = [name for name, count in requests.items() if not int(offered[name].max(initial=0))]
    amounts = words.joined(
        [f"{words.amount(name, count, up=True)} {name}" for name, count in requests.items()], "and"
    )
    name = nodes.names[int(rows[0])]
    largest = words.joined(
        [
            f"{words.amount(each, int(offered[each].max(initial=0)))} {each}"
            for each in requests
            if each in (CPU, MEMORY) and int(offered[each].max(initial=0)) < requests[each]
        ],
        "and",
    )
    text = f"add a node with at least {amounts}"
    if lacking:
        text += f": no node offers {words.joined(lacking)}"
    elif largest:
        text += f": the largest offers {largest}"
    return Action(f"{text} (otherwise like {name})", kind=LARGER_NODE)


def _set_request(pod: Pod, resource: str, less: int) -> str:
    """Lower the request of the container that requests most of it; "" if that is not enough."""
    amounts = [(_requests(pod, i).get(resource, 0), each.name) for i, each in enumerate(pod.spec.containers)]
    requested, name = max(amounts, default=(0, ""))
    if requested <= less or pod.spec.init_containers or pod.spec.resources is not None:
        return ""
    return commands.set_request(pod, name, resource, words.quantity(resource, requested - less))


def _requests(pod: Pod, index: int) -> Mapping[str, int]:
    """The requests of one container, as the scheduler counts them."""
    alone = alterations.altered(pod, containers=[pod.spec.containers[index]], overhead={})
    return PodInfo.of(alone, Shape(alone)).requests


def _resource_name(alteration: Alteration, pod: Pod) -> Action:
    old, new = alteration.key, alteration.text
    text = f"no node offers {old}; did you mean {new}?"
    containers = [
        {
            "name": each.name,
            "resources": {
                part: {old: None, new: raw[old]}
                for part, raw in (("requests", each.resources.requests), ("limits", each.resources.limits))
                if old in raw
            },
        }
        for each in pod.spec.containers
        if old in each.resources.requests
    ]
    return Action(text, commands.patch_spec(pod, {"containers": containers}, merge="strategic"))


# ---- nodes


def _toleration(alteration: Alteration, pod: Pod, node: EngineNode) -> Action:
    hard = alterations.untolerated(pod, node.taints)
    if alteration.number < 0:
        listed = words.listed([words.taint(each) for each in hard])
        return Action(
            f"remove the taints {listed} from {node.name}", commands.remove_taints(node.name, *hard)
        )
    taint = next((each for each in hard if each.key == alteration.key), None)
    if taint is None or alterations.is_condition(taint):
        return Action(f"{alteration.text} on {node.name}", commands.kubectl("describe", "node", node.name))
    text = f"remove the taint {words.taint(taint)} from {node.name}, or tolerate it"
    return Action(text, commands.remove_taints(node.name, taint))


def _is_reserved(label: str) -> bool:
    prefix = label.rpartition("/")[0]
    return bool(prefix) and f"{prefix}/".endswith(_RESERVED_LABELS)


def _label(alteration: Alteration, rehearsal: Rehearsal, node: EngineNode) -> Action:
    key = alteration.key
    value = (rehearsal.pod.pod.spec.node_selector or {})[key]
    label = f"{key}={value}"
    ids, values = rehearsal.nodes.label(key)
    there = {values[each] for each in np.unique(ids).tolist() if each >= 0}
    if value in there:
        text = f"label node {node.name} with {label}: the nodes that have it do not fit"
    elif there:
        others = words.listed(sorted(there)[:3], len(there))
        text = f"label node {node.name} with {label}: no node has this value, only {others}"
    else:
        text = f"label node {node.name} with {label}: no node has this label"
    overwrite = ("--overwrite",) if key in node.labels else ()
    return Action(text, commands.kubectl("label", "node", node.name, label, *overwrite))


# ---- other objects


def _spread(alteration: Alteration, rehearsal: Rehearsal) -> Action:
    """The smallest maxSkew that would do, by halving; otherwise without the constraint."""
    pod, index, fits = alteration.pod, alteration.number, rehearsal.fits
    constraints = rehearsal.pod.pod.spec.topology_spread_constraints
    original = alterations.altered(pod, topology_spread_constraints=constraints)
    now = constraints[index].max_skew
    too_low, enough = now, now + len(rehearsal.scheduler.cluster) + 1
    if not fits(alterations.with_max_skew(original, index, enough)).any():
        patch = alteration.patch
        return Action(alteration.text, "" if patch is None else commands.patch_spec(rehearsal.pod.pod, patch))
    while enough - too_low > 1:
        middle = (too_low + enough) // 2
        if fits(alterations.with_max_skew(original, index, middle)).any():
            enough = middle
        else:
            too_low = middle
    wider = alterations.with_max_skew(original, index, enough).spec.topology_spread_constraints
    text = f"raise maxSkew to {enough}, or {alteration.text}"
    return Action(text, commands.patch_spec(rehearsal.pod.pod, {"topologySpreadConstraints": wider}))


def _host_port(alteration: Alteration, node: EngineNode) -> Action:
    holders = port_holders(node, alteration.number)
    if not holders:
        return Action(alteration.text)
    namespace, _, name = holders[0].partition("/")
    text = f"{alteration.text} ({holders[0]} has it on {node.name})"
    return Action(text, commands.kubectl("delete", "pod", name, namespace=namespace))


def missing_claim(alteration: Alteration, pod: Pod, rehearsal: Rehearsal) -> Alteration:
    """The alteration of a volume whose claim does not exist: the claim is created, not the volume removed.

    Where the default StorageClass provisions for the first consumer, the filters are run with the claim; a
    claim of another class is bound before they look at it, so it is as if there were none.
    """
    source = pod.spec.volumes[alteration.number].persistent_volume_claim
    store = rehearsal.scheduler.store
    if source is None or store.get(PersistentVolumeClaim, source.claim_name, pod.namespace) is not None:
        return alteration
    tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": source.claim_name, "namespace": pod.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    claim: PersistentVolumeClaim | None = None
    storage_class = next((each for each in store.list(StorageClass) if _is_default(each)), None)
    if storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer":
        claim = msgspec.convert(tree, PersistentVolumeClaim)
        claim.spec.storage_class_name = storage_class.name
    return alteration._replace(
        kind="claim",
        text=f"create PersistentVolumeClaim {pod.namespace}/{source.claim_name}",
        key=commands.create(tree),
        pod=alteration.pod if claim is None else pod,
        claim=claim,
    )


def _is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations
    return annotations.get("storageclass.kubernetes.io/is-default-class") == "true"


def _volume(alteration: Alteration, rehearsal: Rehearsal) -> Action:
    pod, store = rehearsal.pod.pod, rehearsal.scheduler.store
    source = pod.spec.volumes[alteration.number].persistent_volume_claim
    claim = None if source is None else store.get(PersistentVolumeClaim, source.claim_name, pod.namespace)
    if claim is None:
        return Action(alteration.text)
    describe = commands.kubectl("describe", "pvc", claim.name, namespace=claim.namespace)
    class_name = claim.spec.storage_class_name
    if claim.spec.volume_name:
        volume = store.get(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            text = f"create PersistentVolume {claim.spec.volume_name}: claim {claim.key} is bound to it"
        else:
            text = (
                f"use another claim than {claim.key}: its volume {volume.name} is not available to the nodes"
            )
        return Action(text, describe)
    if class_name and store.get(StorageClass, class_name) is None:
        text = f"create StorageClass {class_name}: claim {claim.key} needs it"
        return Action(text, commands.kubectl("get", "storageclass"))
    return Action(f"bind claim {claim.key} to a volume: it is not bound yet", describe)
