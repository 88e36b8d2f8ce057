"""Scenes of quotas: what is counted, what is refused and how that is told. They are played on the real
kube-apiserver and kube-controller-manager for the recording, and on ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mooring.client.api_errors import ApiError
from tests.sandbox.controllers.kit import Stage, Tree, template, workload

SETTLED = 1.5  # seconds; who counts again hears of a deletion only after others did


class Journal:
    """Takes notes of the quotas, and of what was refused since the last note."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._refused: list[str] = []
        self._pages: list[Tree] = []

    async def attempt(self, what: Awaitable[Any]) -> None:
        try:
            await what
        except ApiError as refusal:
            self._refused.append(f"{refusal.code} {refusal.reason}: {refusal.message}")

    async def create(self, *manifests: Tree) -> None:
        for manifest in manifests:
            await self.attempt(self._stage.create(manifest))

    async def note(self, what: str) -> None:
        await self._stage.rest()
        await self._stage.advance(SETTLED)
        quotas = {one["metadata"]["name"]: one["status"] for one in await self._stage.all("resourcequotas")}
        self._pages.append({"after": what, "quotas": quotas, "refused": self._refused})
        self._refused = []

    def result(self) -> Tree:
        return {"pages": self._pages}


def quota(name: str, hard: Tree, scopes: Sequence[str] = (), **spec: Any) -> Tree:
    given = {"hard": hard, **({"scopes": list(scopes)} if scopes else {}), **spec}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": given}


def pod(name: str, requests: Tree | None = None, limits: Tree | None = None, **spec: Any) -> Tree:
    made = template("app", **spec)
    resources = {kind: amounts for kind, amounts in (("requests", requests), ("limits", limits)) if amounts}
    made["spec"]["containers"][0]["resources"] = resources
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {"name": name}}


async def quota_pods(stage: Stage) -> Tree:
    """Compute resources of pods, from the first to the last."""
    journal = Journal(stage)
    await journal.create(pod("early", {"cpu": "250m", "memory": "64Mi"}))
    hard = {"pods": "4", "requests.cpu": "2", "memory": "1Gi", "limits.cpu": "3", "count/pods": "6"}
    await journal.create(quota("compute", hard))
    await journal.note("a quota, and a pod that was there before")
    small = {"cpu": "500m", "memory": "128Mi"}
    await journal.create(
        pod("silent"),
        pod("half", {"cpu": "100m"}),
        pod("fits", small, {"cpu": "1"}),
        pod("greedy", {"cpu": "1500m", "memory": "100M"}, {"cpu": "2500m"}),
        pod("decimal", {"cpu": "0.3", "memory": "100M"}, {"cpu": "0.7"}),
    )
    await journal.note("pods that fit, and others")
    await stage.bind("fits", "n0")
    await stage.end_pod("fits")
    await journal.note("one has ended")
    await journal.create(pod("third", small, {"cpu": "1"}), pod("fourth", small, {"cpu": "1"}))
    await journal.create(pod("fifth", small, {"cpu": "500m"}))
    await journal.note("others in its place")
    await stage.delete("pods", "third", grace=0)
    await journal.note("one is deleted")

    def resized(requests: str, limits: str) -> Tree:
        resources = {"requests": {"cpu": requests}, "limits": {"cpu": limits}}
        return {"spec": {"containers": [{"name": "main", "resources": resources}]}}

    await journal.attempt(stage.patch("pods", "decimal", resized("2", "2"), "resize"))
    await journal.attempt(stage.patch("pods", "decimal", resized("400m", "900m"), "resize"))
    await journal.note("one grows")
    await stage.patch("resourcequotas", "compute", {"spec": {"hard": {"pods": "1", "memory": None}}})
    await journal.note("the quota is smaller now than what is used")
    await journal.create(pod("sixth", small, {"cpu": "500m"}))
    await stage.delete("resourcequotas", "compute")
    await journal.create(pod("free"))
    await journal.note("the quota is gone")
    return journal.result()


async def quota_totals(stage: Stage) -> Tree:
    """Pods of several containers, with init containers and extended resources."""
    journal = Journal(stage)
    gpu = "example.com/gpu"
    hard = {f"requests.{gpu}": "4", "cpu": "4", "requests.ephemeral-storage": "2Gi", "limits.memory": "4Gi"}
    await journal.create(quota("all", hard))
    await journal.note("a quota")

    def container(name: str, requests: Tree, limits: Tree, **more: Any) -> Tree:
        return {"name": name, "image": "app", "resources": {"requests": requests, "limits": limits}, **more}

    both = {"memory": "512Mi", gpu: "1"}
    main = container("main", {"cpu": "500m", "ephemeral-storage": "100Mi", **both}, both)
    other = container("other", {"cpu": "1"}, {"memory": "1G"})
    first = container("first", {"cpu": "2", **both}, {**both, "memory": "3Gi"})
    beside = container("beside", {"cpu": "250m"}, {"memory": "128Mi"}, restartPolicy="Always")
    silent = container("silent", {}, {"memory": "1Mi"})
    await journal.create(
        {**pod("several"), "spec": {"containers": [main, other], "initContainers": [beside, first]}},
        {
            **pod("incomplete"),
            "spec": {"containers": [main, silent], "initContainers": [{**silent, "name": "init"}]},
        },
        {**pod("gpus"), "spec": {"containers": [main, {**main, "name": "second"}]}},
    )
    await journal.note("pods")
    return journal.result()


async def quota_scopes(stage: Stage) -> Tree:
    """Quotas for some pods only."""
    journal = Journal(stage)
    for name, value in (("high", 1000), ("low", 10)):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        await journal.create({**made, "metadata": {"name": f"quota-{name}"}})

    def classes(operator: str, *values: str) -> Tree:
        expression = {"scopeName": "PriorityClass", "operator": operator}
        expressions = [{**expression, **({"values": list(values)} if values else {})}]
        return {"scopeSelector": {"matchExpressions": expressions}}

    await journal.create(
        quota("best-effort", {"pods": "1"}, ["BestEffort"]),
        quota("not-best-effort", {"pods": "9", "cpu": "1"}, ["NotBestEffort"]),
        quota("terminating", {"pods": "1"}, ["Terminating"]),
        quota("not-terminating", {"pods": "9"}, ["NotTerminating"]),
        quota("any-class", {"pods": "3"}, ["PriorityClass"]),
        quota("high", {"pods": "1"}, **classes("In", "quota-high")),
        quota("not-high", {"pods": "9"}, **classes("NotIn", "quota-high")),
        quota("no-class", {"pods": "9"}, **classes("DoesNotExist")),
        quota("afar", {"pods": "0"}, ["CrossNamespacePodAffinity"]),
    )
    await journal.note("quotas")
    term = {"topologyKey": "zone", "namespaceSelector": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await journal.create(
        pod("best-1"),
        pod("best-2"),
        pod("ends", {"cpu": "100m"}, activeDeadlineSeconds=600),
        pod("ends-too", {"cpu": "100m"}, activeDeadlineSeconds=600),
        pod("high-1", {"cpu": "100m"}, priorityClassName="quota-high"),
        pod("high-2", {"cpu": "100m"}, priorityClassName="quota-high"),
        pod("low", {"memory": "1Gi"}, priorityClassName="quota-low"),
        pod("afar", {"cpu": "100m"}, affinity=affinity),
    )
    await journal.note("pods")
    await journal.attempt(stage.patch("pods", "high-1", {"spec": {"activeDeadlineSeconds": 60}}))
    await journal.attempt(stage.patch("pods", "best-1", {"metadata": {"labels": {"a": "b"}}}))
    await journal.note("one is to end, but there is no room for that")
    await stage.delete("pods", "ends", grace=0)
    await stage.advance(SETTLED)
    await journal.attempt(stage.patch("pods", "high-1", {"spec": {"activeDeadlineSeconds": 60}}))
    await journal.note("one is to end")
    return journal.result()


async def quota_objects(stage: Stage) -> Tree:
    """Counts of all kinds of objects, services and claims."""
    journal = Journal(stage)
    hard = {
        "configmaps": "2", "secrets": "1", "count/deployments.apps": "1",
        "count/leases.coordination.k8s.io": "0",
        "services": "3", "services.nodeports": "2", "services.loadbalancers": "1", "resourcequotas": "2",
        "persistentvolumeclaims": "2", "requests.storage": "10Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "4Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "2",
    }  # fmt: skip
    await journal.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}})
    await journal.create(quota("objects", hard))
    await journal.note("a quota")

    def service(name: str, ports: int = 1, **spec: Any) -> Tree:
        listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
        made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
        return {**made, "spec": {"ports": listed, "selector": {"app": "x"}, **spec}}

    def claim(name: str, size: str, **spec: Any) -> Tree:
        given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": given,
        }

    def named(kind: str, name: str) -> Tree:
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}

    await journal.create(named("ConfigMap", "m1"), named("ConfigMap", "m2"), named("ConfigMap", "own"))
    await journal.create(named("Secret", "s1"), named("Secret", "s2"))
    await journal.create(workload("Deployment", "d1", replicas=0), workload("Deployment", "d2", replicas=0))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    await journal.create(lease, quota("second", {"pods": "9"}), quota("third", {"pods": "9"}))
    await journal.note("objects")
    await journal.create(
        service("plain"), service("node", type="NodePort"), service("nodes", 2, type="NodePort"),
        service("balanced", type="LoadBalancer"), service("more", 1, type="LoadBalancer"), service("last"),
    )  # fmt: skip
    await journal.attempt(stage.patch("services", "plain", {"spec": {"type": "NodePort"}}))
    await journal.note("services")
    await stage.patch("services", "node", {"spec": {"type": "ClusterIP"}})
    await journal.note("one needs no port of nodes any more")
    await journal.create(
        claim("gold", "3Gi", storageClassName="gold"), claim("gold-too", "2Gi", storageClassName="gold"),
        claim("large", "8Gi"), claim("some", "5000000000", storageClassName="silver"), claim("many", "1"),
    )  # fmt: skip
    await journal.note("claims")
    for plural, name in (("configmaps", "m1"), ("secrets", "s1"), ("deployments", "d1")):
        await stage.delete(plural, name)
    await stage.patch("persistentvolumeclaims", "gold", {"metadata": {"finalizers": None}})
    await stage.delete("persistentvolumeclaims", "gold")
    await stage.delete("services", "balanced")
    await journal.note("some are gone")
    return journal.result()


async def quota_replicas(stage: Stage) -> Tree:
    """A ReplicaSet that may not have all its pods, until it may."""
    journal = Journal(stage)
    await journal.create(workload("ReplicaSet", "web", replicas=3))
    await stage.rest()
    await journal.create(quota("few", {"pods": "5"}))
    await journal.note("a quota, and three replicas that were there before")
    await stage.scale("replicasets", "web", 8)
    await journal.note("eight are wanted")
    await stage.patch("resourcequotas", "few", {"spec": {"hard": {"pods": "20"}}})
    await stage.advance(20)
    await journal.note("more are allowed")
    await stage.scale("replicasets", "web", 0)
    await journal.note("none are wanted")
    return journal.result()


def claim(name: str, *requests: Tree) -> Tree:
    listed = [{"name": f"r{at}", **request} for at, request in enumerate(requests)]
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
    return {**made, "spec": {"devices": {"requests": listed}}}


def exactly(count: int = 1, of: str = "gpu", **more: Any) -> Tree:
    return {"exactly": {"deviceClassName": of, "count": count, **more}}


async def quota_devices(stage: Stage) -> Tree:
    """Devices by class, at worst, and resource claims."""
    journal = Journal(stage)

    def first(*alternatives: tuple[str, int]) -> Tree:
        listed = [
            {"name": f"a{at}", "deviceClassName": of, "count": count}
            for at, (of, count) in enumerate(alternatives)
        ]
        return {"firstAvailable": listed}

    await journal.create(claim("early", exactly()))
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "6", "nic.deviceclass.resource.k8s.io/devices": "3"}
    await journal.create(quota("devices", hard))
    await journal.create(quota("claims", {"count/resourceclaims.resource.k8s.io": "5"}))
    await journal.create(quota("odd", {"devices": "1", "gpu.deviceclass.resource.k8s.io/other": "1"}))
    await journal.note("quotas, and a claim that was there before")
    await journal.create(
        claim("two", exactly(2), exactly(1, "nic")),
        claim("every", {"exactly": {"deviceClassName": "nic", "allocationMode": "All"}}),
        claim("either", first(("gpu", 1), ("gpu", 2), ("nic", 2))),
        claim("both", exactly(2), exactly(1, "nic")),
        claim("free", exactly(9, "free")),
        claim("last", exactly()),
        claim("beyond", exactly(1, "free")),
    )
    await journal.note("claims that fit, and others")
    await journal.attempt(stage.patch("resourceclaims", "two", {"metadata": {"labels": {"a": "b"}}}))
    await stage.delete("resourceclaims", "two")
    await journal.note("one is deleted")
    return journal.result()


async def quota_extended(stage: Stage) -> Tree:
    """Devices of claims, by the extended resource of their class."""
    journal = Journal(stage)
    fast, implicit = "example.com/fast", "deviceclass.resource.kubernetes.io/"
    await journal.create(device_class("fast", extendedResourceName=fast), device_class("plain"))
    hard = {
        f"requests.{fast}": "5",
        f"requests.{implicit}fast": "6",
        f"requests.{implicit}plain": "3",
        f"requests.{implicit}unknown": "1",
        "fast.deviceclass.resource.k8s.io/devices": "9",
    }
    await journal.create(claim("early", exactly(1, "fast")))
    await journal.create(quota("extended", hard))
    await journal.note("a quota, and a claim that was there before")
    await journal.create(
        claim("two", exactly(2, "fast"), exactly(1, "plain")),
        claim("three", exactly(3, "fast")),
        claim("plain", exactly(3, "plain")),
        claim("unknown", exactly(2, "unknown")),
    )
    await journal.note("claims that fit, and others")
    one = {fast: "1", f"{implicit}plain": "1"}
    await journal.create(pod("asks", one, one))
    await journal.note("a pod that asks for extended resources")
    await journal.create(await owned(stage, "for-pod", exactly(2, "fast"), exactly(1, "plain")))
    await journal.note("a claim of that pod, of whose devices some were counted already")
    await journal.create(await owned(stage, "for-pod-too", exactly(1, "fast")))
    await journal.note("another one, of which none were")
    await stage.delete("resourceclaims", "early")
    await journal.note("one is deleted")
    return journal.result()


def device_class(name: str, **spec: Any) -> Tree:
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
    return {**made, "spec": spec}


async def owned(stage: Stage, name: str, *requests: Tree) -> Tree:
    """A claim as kube-scheduler creates it for the extended resources of the pod `asks`."""
    uid = (await stage.get("pods", "asks"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "asks", "uid": uid, "controller": True}
    made = claim(name, *requests)
    made["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    made["metadata"]["ownerReferences"] = [owner]
    return made


SCENES: dict[str, Callable[[Stage], Awaitable[Tree]]] = {
    "quota_pods": quota_pods,
    "quota_totals": quota_totals,
    "quota_scopes": quota_scopes,
    "quota_objects": quota_objects,
    "quota_devices": quota_devices,
    "quota_extended": quota_extended,
    "quota_replicas": quota_replicas,
}


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    return await SCENES[name](stage)
