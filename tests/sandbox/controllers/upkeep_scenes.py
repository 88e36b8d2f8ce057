"""Scenes of what keeps a cluster in order: garbage collection, namespaces, budgets, nodes, volumes. They are
played on kube-controller-manager for the recording, and on ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mooring.api.times import format_time
from tests.sandbox.controllers.kit import CORE_EVENTS, PODS, Stage, Tree, resource, template, workload

MAPS = resource("configmaps")
NOBODY = "00000000-0000-0000-0000-000000000000"


class Journal:
    """Takes notes of the kinds it is to look at; what is random or a matter of time is left out."""

    def __init__(self, stage: Stage, *plurals: str) -> None:
        self._stage = stage
        self._plurals = plurals
        self._pages: list[Tree] = []

    async def note(self, what: str, *, after: float | None = None) -> None:
        """How things are once they have come to rest; where events are told over and over, after a while."""
        if after is None:
            await self._stage.rest()
        else:
            await self._stage.advance(after)
        page: Tree = {"after": what}
        for plural in self._plurals:
            found = await self._stage.all(plural)
            page[plural] = {one["metadata"]["name"]: _SHAPES[plural](one) for one in found if _is_ours(one)}
        self._pages.append(page)

    async def result(self, *reasons: str) -> Tree:
        """All pages, and the events with these reasons, each once."""
        told: dict[str, set[str]] = {}
        for namespace in {self._stage.namespace, "default"}:
            for event in (await self._stage.cluster.list(CORE_EVENTS, namespace=namespace)).items:
                if event.reason in reasons:
                    about = f"{event.involved_object['kind']} {event.involved_object['name']}"
                    told.setdefault(about, set()).add(f"{event.type} {event.reason}: {event.message}")
        return {"pages": self._pages, "events": {about: sorted(told[about]) for about in sorted(told)}}


def _is_ours(one: Tree) -> bool:
    """Not what every cluster has, or what other scenes left."""
    name = one["metadata"]["name"]
    return not (name.startswith(("kube", "system:")) or name in ("default", "first"))


def _metadata(one: Tree) -> Tree:
    meta = one["metadata"]
    shape = {
        "owners": [owner["name"] for owner in meta.get("ownerReferences", [])],
        "finalizers": sorted(meta.get("finalizers", [])),
        "leaving": "deletionTimestamp" in meta,
        "annotations": sorted(key for key in meta.get("annotations", {}) if "deployment" not in key),
    }
    return {part: value for part, value in shape.items() if value}


def _conditions(one: Tree) -> list[str]:
    return sorted(
        f"{condition['type']}={condition['status']} {condition.get('reason', '')}: "
        f"{condition.get('message', '')}"
        for condition in one["status"].get("conditions", [])
    )


def _pod(one: Tree) -> Tree:
    return {**_metadata(one), "phase": one["status"].get("phase"), "conditions": _conditions(one)}


def _namespace(one: Tree) -> Tree:
    return {**_metadata(one), "phase": one["status"].get("phase"), "conditions": _conditions(one)}


def _budget(one: Tree) -> Tree:
    status = {name: value for name, value in one["status"].items() if name != "conditions"}
    status["disruptedPods"] = len(status.get("disruptedPods", {}))
    return {**status, "conditions": _conditions(one)}


def _node(one: Tree) -> Tree:
    taints = sorted(f"{taint['key']}:{taint['effect']}" for taint in one["spec"].get("taints", []))
    return {"taints": taints, "conditions": _conditions(one)}


def _volume(one: Tree) -> Tree:
    claim = (one["spec"].get("claimRef") or {}).get("name")
    return {**_metadata(one), "phase": one["status"].get("phase"), "claim": claim}


def _claim(one: Tree) -> Tree:
    return {**_metadata(one), **one["status"], "volume": one["spec"].get("volumeName")}


def _cluster_role(one: Tree) -> Tree:
    return {"rules": one.get("rules") or []}


_SHAPES: dict[str, Callable[[Tree], Tree]] = {
    "clusterroles": _cluster_role,
    "configmaps": _metadata,
    "pods": _pod,
    "namespaces": _namespace,
    "poddisruptionbudgets": _budget,
    "nodes": _node,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
}


# ---- garbage collection


def config_map(name: str, *owners: Tree, block: bool = True, **more: Any) -> Tree:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def delete_map(stage: Stage, name: str, policy: str) -> None:
    await stage.cluster.delete(MAPS, name, stage.namespace, propagation_policy=policy)


async def gc_policies(stage: Stage) -> Tree:
    """A family of three generations, the middle one held by somebody else, deleted in each way."""
    journal = Journal(stage, "configmaps")
    for policy in ("Background", "Foreground", "Orphan"):
        for block in (True, False):
            owner = await stage.create(config_map("a"))
            child = await stage.create(config_map("b", owner, block=block, finalizers=["example.com/hold"]))
            await stage.create(config_map("c", child, block=block))
            await stage.rest()
            await delete_map(stage, "a", policy)
            await journal.note(f"{policy}, {block=}")
            await stage.patch("configmaps", "b", {"metadata": {"finalizers": None}})
            await journal.note(f"{policy}, {block=}, let go")
            for one in await stage.all("configmaps"):
                if _is_ours(one):
                    await delete_map(stage, one["metadata"]["name"], "Background")
            await stage.rest()
    return await journal.result()


async def gc_owners(stage: Stage) -> Tree:
    """Several owners, owners that never were, and a circle."""
    journal = Journal(stage, "configmaps")
    owners = [await stage.create(config_map(name)) for name in ("one", "two", "three")]
    await stage.create(config_map("child", *owners))
    await stage.rest()
    await delete_map(stage, "one", "Background")
    await delete_map(stage, "two", "Foreground")
    await journal.note("one owner left")
    for name, change in (("stale", {"uid": NOBODY}), ("misnamed", {"name": "nobody"})):
        body = config_map(name, owners[2])
        body["metadata"]["ownerReferences"][0] |= change
        await stage.create(body)
    await journal.note("owners that never were")
    first = await stage.create(config_map("first-of-circle"))
    second = await stage.create(config_map("second-of-circle", first))
    circle = config_map("x", second)["metadata"]["ownerReferences"]
    await stage.patch("configmaps", "first-of-circle", {"metadata": {"ownerReferences": circle}})
    await stage.rest()
    await delete_map(stage, "first-of-circle", "Foreground")
    await journal.note("a circle")
    return await journal.result()


async def gc_deployment(stage: Stage) -> Tree:
    """The foreground deletion of a Deployment waits for its pods."""
    journal = Journal(stage, "pods")
    await stage.create(workload("Deployment", "web", replicas=2))
    await stage.rest()
    await stage.run_pods()
    deployments = resource("deployments")
    await stage.cluster.delete(deployments, "web", stage.namespace, propagation_policy="Foreground")
    await stage.rest()
    counts = [len(await stage.all(plural)) for plural in ("deployments", "replicasets", "pods")]
    await stage.run_pods()
    counts += [len(await stage.all(plural)) for plural in ("deployments", "replicasets", "pods")]
    await journal.note(f"before and after kubelets ended the pods: {counts}")
    return await journal.result()


# ---- namespaces


async def namespace_deletion(stage: Stage) -> Tree:
    """Pods end first, then everything goes but what finalizers hold."""
    journal = Journal(stage, "configmaps", "pods")
    spaces = Journal(stage, "namespaces")
    await stage.create({"apiVersion": "v1", "kind": "Pod", **template("app"), "metadata": {"name": "p"}})
    await stage.bind("p", "n1")
    await stage.create(config_map("held", finalizers=["example.com/hold"]))
    await stage.create(config_map("free"))
    await stage.delete("namespaces", stage.namespace)
    for what, seconds in (("deleted", 8.0), ("the pod is gone", 18.0), ("let go", 12.0)):
        if what == "the pod is gone":
            await stage.delete("pods", "p", grace=0)
        elif what == "let go":
            await stage.patch("configmaps", "held", {"metadata": {"finalizers": None}})
        await stage.advance(seconds)
        await journal.note(what)
        await spaces.note(what)
    pages = (await journal.result())["pages"]
    for page, other in zip(pages, (await spaces.result())["pages"], strict=True):
        page["namespaces"] = other["namespaces"].get(stage.namespace)
    return {"pages": pages, "events": {}}


# ---- budgets


def budget(name: str, app: str, **spec: Any) -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


async def budgets(stage: Stage) -> Tree:
    """Numbers and percentages, evictions, pods without an owner."""
    journal = Journal(stage, "poddisruptionbudgets")
    limits: dict[str, Tree] = {
        "min-number": {"minAvailable": 3},
        "min-part": {"minAvailable": "50%"},
        "max-number": {"maxUnavailable": 1},
        "max-part": {"maxUnavailable": "30%"},
    }
    for name, limit in limits.items():
        await stage.create(budget(name, name, **limit))
    await stage.create(budget("nothing", "nothing", maxUnavailable=1))
    await stage.rest()
    for name in limits:
        await stage.create(workload("Deployment", name, replicas=5))
    await journal.note("created")
    await stage.run_pods()
    await journal.note("running")
    chosen = {pod["metadata"]["labels"]["app"]: pod["metadata"]["name"] for pod in await stage.all("pods")}
    for name in chosen.values():
        await stage.set_ready(name, False)
    await journal.note("one of each is not ready")
    for name in chosen.values():
        await stage.set_ready(name)
    await stage.rest()
    for name in chosen.values():
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        await stage.cluster.post(PODS, name, "eviction", body, stage.namespace)
    await journal.note("one of each is evicted")
    for name in limits:
        await stage.scale("deployments", name, 8)
    await journal.note("scaled")
    pod = {"apiVersion": "v1", "kind": "Pod", **template("alone")}
    await stage.create({**pod, "metadata": {"name": "alone", "labels": {"app": "alone"}}})
    await stage.create(budget("alone", "alone", maxUnavailable=1))
    await journal.note("unmanaged")
    return await journal.result("NoPods", "UnmanagedPods", "CalculateExpectedPodCountFailed")


# ---- nodes


def node(name: str, now: float, ready: str = "True", **metadata: Any) -> Tree:
    stamp = format_time(now)
    conditions = [
        {"type": type, "status": status, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
        for type, status in (("Ready", ready), ("MemoryPressure", "False"), ("DiskPressure", "False"))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"conditions": conditions},
    }


async def post(stage: Stage, name: str, type: str, status: str) -> None:
    stamp = format_time(stage.now())
    condition = {"type": type, "status": status, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    condition |= {"reason": "Said", "message": "so"}
    await stage.patch("nodes", name, {"status": {"conditions": [condition]}}, "status")


async def live_on(stage: Stage, seconds: float, *names: str) -> None:
    """Let time pass in which these nodes are heard of."""
    while seconds > 0:
        for name in names:
            await post(stage, name, "Ready", "True")
        await stage.advance(min(seconds, 10.0))
        seconds -= 10.0


async def node_lost(stage: Stage) -> Tree:
    """A node falls silent among others; its pods are not ready and leave it in time; it comes back."""
    journal = Journal(stage, "nodes", "pods")
    for name in ("lost", "well-1", "well-2"):
        await stage.create(node(name, stage.now()))
    for name, tolerated in (("patient", None), ("hasty", 5)):
        body = {"apiVersion": "v1", "kind": "Pod", **template("app"), "metadata": {"name": name}}
        if tolerated is not None:
            key = "node.kubernetes.io/unreachable"
            body["spec"]["tolerations"] = [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": tolerated}
            ]
        await stage.create(body)
        await stage.bind(name, "lost")
        await stage.set_ready(name)
    await journal.note("registered")
    await live_on(stage, 58, "well-1", "well-2")
    await stage.patch("nodes", "well-1", {"spec": {"unschedulable": True}})
    await live_on(stage, 10, "well-1", "well-2")
    await journal.note("silent")
    await post(stage, "lost", "Ready", "True")
    await live_on(stage, 10, "well-1", "well-2", "lost")
    await journal.note("back")
    await stage.delete("nodes", "lost")
    await live_on(stage, 90, "well-1", "well-2")
    await journal.note("gone")
    for name in ("well-1", "well-2"):
        await stage.delete("nodes", name)
    return await journal.result("NodeNotReady", "RegisteredNode", "RemovingNode", "TaintManagerEviction")


async def nodes_all_lost(stage: Stage) -> Tree:
    """Nothing is evicted while no node is heard of."""
    journal = Journal(stage, "nodes")
    for name in ("one", "two"):
        await stage.create(node(name, stage.now()))
    await stage.advance(65)
    await journal.note("silent")
    await live_on(stage, 15, "one")
    await journal.note("one is back")
    for name in ("one", "two"):
        await stage.delete("nodes", name)
    return await journal.result()


async def node_conditions(stage: Stage) -> Tree:
    """What nodes say of themselves, as taints."""
    journal = Journal(stage, "nodes")
    await stage.create(node("other", stage.now()))
    body = node("said", stage.now(), ready="False")
    body["spec"] = {"taints": [{"key": "mine", "effect": "NoSchedule"}]}
    await stage.create(body)
    await live_on(stage, 8, "other")
    await journal.note("not ready")
    for type, status in (
        ("Ready", "True"),
        ("MemoryPressure", "True"),
        ("DiskPressure", "True"),
        ("PIDPressure", "True"),
        ("NetworkUnavailable", "True"),
        ("MemoryPressure", "Unknown"),
        ("NetworkUnavailable", "False"),
        ("Ready", "False"),
    ):
        await post(stage, "said", type, status)
        await live_on(stage, 6, "other")
        await journal.note(f"{type} {status}")
    for name in ("other", "said"):
        await stage.delete("nodes", name)
    return await journal.result()


# ---- volumes


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": spec.pop("labels", {})},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "csi": {"driver": "d.example.com", "volumeHandle": name},
            **spec,
        },
    }


def claim(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Tree:
    spec.setdefault("storageClassName", "")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec},
    }


async def volumes_static(stage: Stage) -> Tree:
    """Claims find the volumes that suit them; released and lost ones."""
    journal = Journal(stage, "persistentvolumes", "persistentvolumeclaims")
    reserved = {"namespace": stage.namespace, "name": "c-reserved"}
    for body in (
        volume("v-large", "10Gi"),
        volume("v-small", "2Gi"),
        volume("v-shared", "1Gi", ("ReadWriteOnce", "ReadWriteMany")),
        volume("v-gold", "50Gi", labels={"tier": "gold"}),
        volume("v-block", "1Gi", volumeMode="Block"),
        volume("v-reserved", "1Gi", claimRef=reserved),
        volume("v-tiny", "1Mi"),
    ):
        await stage.create(body)
    await journal.note("volumes")
    for body in (
        claim("c-small"),
        claim("c-shared", modes=("ReadWriteMany",)),
        claim("c-gold", selector={"matchLabels": {"tier": "gold"}}),
        claim("c-block", volumeMode="Block"),
        claim("c-reserved"),
        claim("c-named", volumeName="v-large"),
        claim("c-too-large", "5Gi", volumeName="v-tiny"),
        claim("c-none", "500Gi"),
    ):
        await stage.create(body)
        await stage.rest()
    await journal.note("claims")
    await stage.delete("persistentvolumeclaims", "c-gold")
    await stage.delete("persistentvolumes", "v-block")
    await journal.note("a claim is deleted, and a volume in use")
    await stage.patch("persistentvolumes", "v-block", {"metadata": {"finalizers": None}})
    await journal.note("the volume is lost")
    result = await journal.result("FailedBinding", "VolumeMismatch", "ClaimLost", "ProvisioningFailed")
    for one in await stage.all("persistentvolumes"):  # they would be there for the next scene
        await stage.patch("persistentvolumes", one["metadata"]["name"], {"metadata": {"finalizers": None}})
        await stage.delete("persistentvolumes", one["metadata"]["name"])
    return result


async def volumes_delayed(stage: Stage) -> Tree:
    """Claims that wait for a consumer, and for a provisioner that is not there."""
    journal = Journal(stage, "persistentvolumeclaims")
    for name, provisioner, mode in (
        ("late", "disks.example.com", "WaitForFirstConsumer"),
        ("soon", "disks.example.com", "Immediate"),
        ("local", "kubernetes.io/no-provisioner", "Immediate"),
    ):
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        await stage.create({**body, "provisioner": provisioner, "volumeBindingMode": mode})
    for name in ("late", "soon", "local", "missing"):
        await stage.create(claim(f"c-{name}", storageClassName=name))
    await journal.note("claims", after=3)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c-late"}}]
    pod = {"apiVersion": "v1", "kind": "Pod", **template("app", volumes=volumes)}
    await stage.create({**pod, "metadata": {"name": "p"}})
    await stage.advance(3)
    annotations = {"volume.kubernetes.io/selected-node": "n1"}
    await stage.patch("persistentvolumeclaims", "c-late", {"metadata": {"annotations": annotations}})
    await journal.note("a node is selected", after=3)
    await stage.bind("p", "n1")
    await stage.delete("persistentvolumeclaims", "c-late")
    await stage.delete("persistentvolumeclaims", "c-soon")
    await journal.note("deleted, one in use", after=2)
    await stage.delete("pods", "p", grace=0)
    await journal.note("in use no more", after=2)
    return await journal.result(
        "WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning", "ProvisioningFailed"
    )


# ---- roles


def cluster_role(name: str, labels: Tree, *rules: Tree, **more: Any) -> Tree:
    made = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": list(rules), **more}
    return {**made, "metadata": {"name": name, "labels": labels}}


async def role_aggregation(stage: Stage) -> Tree:
    """A role of others, while these come, change and go; and those that every cluster has."""
    journal = Journal(stage, "clusterroles")
    read = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    write = {"apiGroups": [""], "resources": ["pods"], "verbs": ["update"]}
    other = {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["list"]}
    selectors = [
        {"matchLabels": {"scene/sum": "a"}},
        {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
    ]
    await stage.create(cluster_role("scene-2", {"scene/sum": "a"}, read, write))
    await stage.create(cluster_role("scene-sum", {}, aggregationRule={"clusterRoleSelectors": selectors}))
    await journal.note("a role of one other")
    await stage.create(cluster_role("scene-1", {"scene/sum": "a"}, other, read))
    await stage.create(
        cluster_role("scene-0", {"b": "", "rbac.authorization.k8s.io/aggregate-to-view": "true"}, other)
    )
    await journal.note("of three")
    await stage.patch("clusterroles", "scene-1", {"rules": [write]})
    await stage.patch("clusterroles", "scene-2", {"metadata": {"labels": {"scene/sum": "b"}}})
    await journal.note("one is changed, one does not count any more")
    await stage.patch("clusterroles", "scene-sum", {"rules": [other, read]})
    await journal.note("somebody changes the sum")
    await stage.delete("clusterroles", "scene-0")
    await stage.delete("clusterroles", "scene-1")
    await journal.note("all are gone")
    return await journal.result()


SCENES: dict[str, Callable[[Stage], Awaitable[Tree]]] = {
    "gc_policies": gc_policies,
    "gc_owners": gc_owners,
    "gc_deployment": gc_deployment,
    "namespace_deletion": namespace_deletion,
    "budgets": budgets,
    "node_lost": node_lost,
    "nodes_all_lost": nodes_all_lost,
    "node_conditions": node_conditions,
    "volumes_static": volumes_static,
    "volumes_delayed": volumes_delayed,
    "role_aggregation": role_aggregation,
}


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    return await SCENES[name](stage)
