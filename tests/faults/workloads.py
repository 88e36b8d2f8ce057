"""Workloads: what users do to the cluster during a run. All of it follows from the seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from mooring.api.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    ApiResource,
)
from mooring.client.api_errors import ApiError
from mooring.client.port import Cluster, PatchType

Tree = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
PRIORITIES = {"low": -10, "high": 1000}
MOST_PODS = 60  # that users ask for at a time
BURST = 14
LIMITED = "limited"  # a namespace with a quota
QUOTA = {"pods": "5", "requests.cpu": "4"}
GPU = "gpu.example.com"  # a driver, its class and the template of claims


class Users:
    """Create, change and delete objects. `chance` decides; requests meet no faults."""

    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        on_eviction: Callable[[str], None],
        *,
        gangs: bool = False,
        changes_pods: bool = False,
    ) -> None:
        self.cluster = cluster
        self._on_eviction = on_eviction
        self._random = random.Random(f"{seed} users")
        self._count = 0
        self._owners: dict[str, tuple[ApiResource[Any], int]] = {}  # by name: kind, replicas
        self._actions: list[tuple[int, Callable[[], Awaitable[str]]]] = [
            (6, self._create_pod),
            (3, self._delete_pod),
            (3, self._create_deployment),
            (2, self._create_stateful_set),
            (2, self._create_job),
            (1, self._create_daemon_set),
            (3, self._scale),
            (2, self._roll),
            (2, self._delete_owner),
            (2, self._lift_gate),
            (1, self._cordon),
            (2, self._drain),
            (1, self._create_budget),
            (1, self._delete_namespace),
            (2, self._create_limited_pods),
            (3, self._create_gpu_deployment),
        ]
        if gangs:
            self._actions += [(12, self._create_gang), (3, self._delete_gang)]
        if changes_pods:
            self._actions += [(12, self._resize_pod), (3, self._share_claim), (3, self._delete_claim)]
        weights = [weight for weight, _ in self._actions]
        favoured = self._random.sample(range(len(weights)), k=4)
        self._weights = [weight * (4 if at in favoured else 1) for at, weight in enumerate(weights)]
        self.every = self._random.choice((1.0, 3.0, 10.0))
        self._actions_only = [action for _, action in self._actions]
        self._gated: list[str] = []
        self._gangs: list[str] = []

    async def prepare(self) -> None:
        for name, value in PRIORITIES.items():
            await self.cluster.create(
                PRIORITY_CLASSES, _object("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
            )

        await self.cluster.create(NAMESPACES, _object("v1", "Namespace", LIMITED))
        quota = _object("v1", "ResourceQuota", "quota", spec={"hard": QUOTA})
        await self.cluster.create(RESOURCE_QUOTAS, quota, LIMITED)
        await self.cluster.create(DEVICE_CLASSES, _object("resource.k8s.io/v1", "DeviceClass", GPU, spec={}))
        request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
        template = {"spec": {"devices": {"requests": [request]}}}
        await self.cluster.create(
            RESOURCE_CLAIM_TEMPLATES,
            _object("resource.k8s.io/v1", "ResourceClaimTemplate", GPU, spec=template),
            "default",
        )

    def pause(self) -> float:
        """Seconds until the next action."""
        return self._random.expovariate(1 / self.every)

    async def act(self) -> str:
        """Do something; what it was."""
        (action,) = self._random.choices(self._actions_only, self._weights)
        try:
            return await action()
        except ApiError as refusal:
            return f"{action.__name__.strip('_')}: {refusal}"

    # ---- pods

    def _pod_spec(self, **more: Any) -> Tree:
        chance = self._random
        cpu = chance.choice(("100m", "250m", "500m", "1", "2", "3"))
        container: Tree = {
            "name": "main",
            "image": "app",
            "resources": {"requests": {"cpu": cpu, "memory": chance.choice(("64Mi", "512Mi", "2Gi"))}},
        }
        spec: Tree = {
            "containers": [container],
            "terminationGracePeriodSeconds": chance.choice((0, 1, 30)),
            **more,
        }
        what = chance.randrange(12)
        if what == 0:
            container["ports"] = [{"containerPort": 80, "hostPort": chance.choice((8080, 9090))}]
        elif what == 1:
            spec["nodeSelector"] = {ZONE: chance.choice(("local-a", "local-b", "local-c"))}
        elif what in (2, 3):
            spec["priorityClassName"] = chance.choice(tuple(PRIORITIES))
        elif what == 4:
            spec["tolerations"] = [{"operator": "Exists"}]
        return spec

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    async def _pods(self) -> list[Any]:
        return (await self.cluster.list(PODS)).items

    async def _is_full(self) -> bool:
        return len(await self._pods()) >= MOST_PODS

    async def _create_pod(self) -> str:
        if await self._is_full():
            return await self._delete_pod()
        name = self._name("pod")
        spec = self._pod_spec()
        what = self._random.randrange(10)
        if what == 0:
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
            self._gated.append(name)
        elif what == 1:
            spec["schedulerName"] = "another-scheduler"
        body = _object("v1", "Pod", name, spec=spec)
        body["metadata"]["labels"] = {"app": self._random.choice(("a", "b"))}
        await self.cluster.create(PODS, body, "default")
        return f"created pod {name}"

    async def _create_limited_pods(self) -> str:
        """Create more pods at once than the quota may allow."""
        names = [self._name("pod") for _ in range(self._random.randint(2, 6))]
        bodies = [_object("v1", "Pod", name, spec=self._pod_spec()) for name in names]
        creating = (self.cluster.create(PODS, body, LIMITED) for body in bodies)
        answers = await asyncio.gather(*creating, return_exceptions=True)
        refused = sum(isinstance(answer, ApiError) for answer in answers)
        return f"created {len(names) - refused} of {len(names)} pods in {LIMITED}"

    async def _delete_pod(self) -> str:
        pods = await self._pods()
        if not pods:
            return "no pods to delete"
        pod = self._random.choice(pods)
        await self.cluster.delete(PODS, pod.name, pod.namespace)
        return f"deleted pod {pod.key}"

    async def _resize_pod(self) -> str:
        """Have a pod that runs ask for other resources, sometimes more than its node has."""
        pods = [pod for pod in await self._pods() if pod.status.phase == "Running"]
        pods = [pod for pod in pods if pod.namespace == "default"]  # another one has a quota
        if not pods:
            return "no pods to resize"
        pod, cpu = self._random.choice(pods), self._random.choice(("50m", "400m", "1", "2500m", "3900m", "5"))
        patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
        await self.cluster.patch(
            PODS, pod.name, patch, pod.namespace, subresource="resize", kind=PatchType.STRATEGIC
        )
        return f"resized pod {pod.key} to {cpu}"

    async def _lift_gate(self) -> str:
        if not self._gated:
            return "no gates to lift"
        name = self._gated.pop(0)
        await self.cluster.patch(PODS, name, {"spec": {"schedulingGates": None}}, "default")
        return f"lifted the gate of pod {name}"

    # ---- workloads

    def _template(self, name: str, **more: Any) -> Tree:
        return {"metadata": {"labels": {"app": name}}, "spec": self._pod_spec(**more)}

    async def _create(
        self, resource: ApiResource[Any], kind: str, name: str, spec: Tree, replicas: int
    ) -> str:
        if await self._is_full():
            return await self._delete_owner()
        await self.cluster.create(resource, _object(resource.api_version, kind, name, spec=spec), "default")
        self._owners[name] = resource, replicas
        return f"created {kind} {name} of {replicas}"

    async def _create_deployment(self) -> str:
        name, replicas = self._name("web"), self._random.randint(1, 8)
        template = self._template(name)
        term = {"labelSelector": {"matchLabels": {"app": name}}}
        what = self._random.randrange(3)
        if what == 0:
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **term}
            template["spec"]["topologySpreadConstraints"] = [spread]
        elif what == 1:
            required = [{**term, "topologyKey": HOSTNAME}]
            template["spec"]["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        spec = {"replicas": replicas, "selector": term["labelSelector"], "template": template}
        return await self._create(DEPLOYMENTS, "Deployment", name, spec, replicas)

    async def _create_gpu_deployment(self) -> str:
        name, replicas = self._name("gpu"), self._random.randint(1, 4)
        template = self._template(name)
        claim = {"name": "gpu", "resourceClaimTemplateName": GPU}
        template["spec"]["resourceClaims"] = [claim]
        template["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        return await self._create(DEPLOYMENTS, "Deployment", name, spec, replicas)

    async def _share_claim(self) -> str:
        """Create a claim and pods that share its device."""
        if await self._is_full():
            return await self._delete_pod()
        claim = self._name("shared")
        request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
        body = _object(
            "resource.k8s.io/v1", "ResourceClaim", claim, spec={"devices": {"requests": [request]}}
        )
        await self.cluster.create(RESOURCE_CLAIMS, body, "default")
        names = [self._name("sharer") for _ in range(self._random.randint(1, 4))]
        for name in names:
            spec = self._pod_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": claim}])
            spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
            await self.cluster.create(PODS, _object("v1", "Pod", name, spec=spec), "default")
        return f"created {len(names)} pods that share claim {claim}"

    async def _delete_claim(self) -> str:
        """Delete a claim, which stays while pods use it."""
        kind: ApiResource[Any] = self._random.choice((RESOURCE_CLAIMS, PERSISTENT_VOLUME_CLAIMS))
        claims = (await self.cluster.list(kind)).items
        if not claims:
            return "no claims to delete"
        claim = self._random.choice(claims)
        await self.cluster.delete(kind, claim.name, claim.namespace)
        return f"deleted {kind.kind} {claim.namespace}/{claim.name}"

    async def burst(self) -> str:
        """Ask for more than fits, all at once, in the place of what was asked for in this way before."""
        for former in [name for name in self._owners if name.startswith("burst-")]:
            del self._owners[former]
            with suppress(ApiError):
                await self.cluster.delete(DEPLOYMENTS, former, "default")
        name = self._name("burst")
        template = self._template(name)
        template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
        spec = {"replicas": BURST, "selector": {"matchLabels": {"app": name}}, "template": template}
        try:
            await self.cluster.create(
                DEPLOYMENTS, _object("apps/v1", "Deployment", name, spec=spec), "default"
            )
        except ApiError as refusal:
            return f"burst: {refusal}"
        self._owners[name] = DEPLOYMENTS, BURST
        return f"created Deployment {name} of {BURST}"

    async def _create_stateful_set(self) -> str:
        name, replicas = self._name("db"), self._random.randint(1, 3)
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": self._template(name),
            "volumeClaimTemplates": [claim] if self._random.random() < 0.5 else [],
            "podManagementPolicy": self._random.choice(("OrderedReady", "Parallel")),
        }
        return await self._create(STATEFUL_SETS, "StatefulSet", name, spec, replicas)

    async def _create_job(self) -> str:
        name, count = self._name("job"), self._random.randint(1, 6)
        template = self._template(name, restartPolicy="Never")
        template["metadata"]["annotations"] = {"mooring/run-time": f"{self._random.randint(1, 30)}s"}
        counts = {"completions": count, "parallelism": count, "ttlSecondsAfterFinished": 10}
        spec = {**counts, "template": template}
        return await self._create(JOBS, "Job", name, spec, 0)

    async def _create_gang(self) -> str:
        """Create a PodGroup and its pods, by themselves or as an indexed Job, sometimes the pods first."""
        if await self._is_full():
            return await self._delete_gang()
        name, count = self._name("gang"), self._random.randint(2, 6)
        minimum = self._random.randint(2, count)
        policy = {"gang": {"minCount": minimum}}
        group = _object("scheduling.k8s.io/v1alpha2", "PodGroup", name, spec={"schedulingPolicy": policy})
        early = self._random.random() < 0.7
        if early:
            await self.cluster.create(POD_GROUPS, group, "default")
        self._gangs.append(name)
        template = self._template(name, schedulingGroup={"podGroupName": name})
        if self._random.random() < 0.5:
            template["spec"]["restartPolicy"] = "Never"
            seconds = self._random.choice((20, 600, 36000))
            template["metadata"]["annotations"] = {"mooring/run-time": f"{seconds}s"}
            counts = {"completions": count, "parallelism": count, "backoffLimit": 1000}
            spec = {**counts, "completionMode": "Indexed", "template": template}
            await self.cluster.create(JOBS, _object("batch/v1", "Job", name, spec=spec), "default")
            self._owners[name] = JOBS, 0
        else:
            for i in range(count):
                body = _object("v1", "Pod", f"{name}-{i}", spec=template["spec"])
                body["metadata"]["labels"] = {"app": name}
                await self.cluster.create(PODS, body, "default")
        if not early:
            await self.cluster.create(POD_GROUPS, group, "default")
        return f"created gang {name} of {count}, at least {minimum}"

    async def _delete_gang(self) -> str:
        if not self._gangs:
            return "no gangs to delete"
        name = self._gangs.pop(self._random.randrange(len(self._gangs)))
        if self._owners.pop(name, None) is not None:
            await self.cluster.delete(JOBS, name, "default", propagation_policy="Background")
        for pod in await self._pods():
            if pod.metadata.labels.get("app") == name:
                with suppress(ApiError):
                    await self.cluster.delete(PODS, pod.name, pod.namespace)
        await self.cluster.delete(POD_GROUPS, name, "default")
        return f"deleted gang {name}"

    async def _create_daemon_set(self) -> str:
        name = self._name("agent")
        spec = {"selector": {"matchLabels": {"app": name}}, "template": self._template(name)}
        return await self._create(DAEMON_SETS, "DaemonSet", name, spec, 0)

    async def _create_budget(self) -> str:
        names = [name for name, (_, replicas) in self._owners.items() if replicas]
        if not names:
            return "nothing to protect"
        name = self._random.choice(names)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        body = _object("policy/v1", "PodDisruptionBudget", self._name("budget"), spec=spec)
        await self.cluster.create(POD_DISRUPTION_BUDGETS, body, "default")
        return f"created a budget for {name}"

    def _owner(self, *kinds: ApiResource[Any]) -> str:
        names = [name for name, (kind, _) in self._owners.items() if kind in kinds]
        return self._random.choice(names) if names else ""

    async def _scale(self) -> str:
        name = self._owner(DEPLOYMENTS, STATEFUL_SETS)
        if not name:
            return "nothing to scale"
        resource, replicas = self._owners[name][0], self._random.randint(0, 6)
        await self.cluster.patch(resource, name, {"spec": {"replicas": replicas}}, "default")
        self._owners[name] = resource, replicas
        return f"scaled {name} to {replicas}"

    async def _roll(self) -> str:
        name = self._owner(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)
        if not name:
            return "nothing to roll out"
        annotations = {"revision": str(self._random.randrange(10**6))}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        await self.cluster.patch(self._owners[name][0], name, patch, "default")
        return f"rolled out {name}"

    async def _delete_owner(self) -> str:
        if not self._owners:
            return "no workloads to delete"
        name = self._random.choice(list(self._owners))
        resource, _ = self._owners.pop(name)
        policy = self._random.choice(("Background", "Foreground"))
        await self.cluster.delete(resource, name, "default", propagation_policy=policy)
        return f"deleted {resource.kind} {name} ({policy})"

    async def _delete_namespace(self) -> str:
        name = self._name("space")
        await self.cluster.create(NAMESPACES, _object("v1", "Namespace", name))
        for _ in range(self._random.randint(1, 3)):
            pod = _object("v1", "Pod", self._name("pod"), spec=self._pod_spec())
            await self.cluster.create(PODS, pod, name)
        await self.cluster.delete(NAMESPACES, name)
        return f"created and deleted namespace {name}"

    # ---- nodes

    async def _cordon(self) -> str:
        nodes = (await self.cluster.list(NODES)).items
        node = self._random.choice(nodes)
        cordon = not node.spec.unschedulable and not any(one.spec.unschedulable for one in nodes)
        await self.cluster.patch(
            NODES, node.name, {"spec": {"unschedulable": cordon or None}}, kind=PatchType.MERGE
        )
        return f"{'cordoned' if cordon else 'uncordoned'} {node.name}"

    async def _drain(self) -> str:
        """Evict some pods of a node, as `kubectl drain` does."""
        nodes = (await self.cluster.list(NODES)).items
        node = self._random.choice(nodes)
        on_node = [pod for pod in await self._pods() if pod.spec.node_name == node.name and not pod.finished]
        evicted = 0
        for pod in on_node:
            eviction = _object("policy/v1", "Eviction", pod.name)
            self._on_eviction(pod.key)
            try:
                await self.cluster.post(PODS, pod.name, "eviction", eviction, pod.namespace)
                evicted += 1
            except ApiError as refusal:
                if refusal.code not in (404, 409, 429):
                    raise
            finally:
                self._on_eviction("")
        return f"evicted {evicted} of {len(on_node)} pods on {node.name}"


def _object(api_version: str, kind: str, name: str, **more: Any) -> Tree:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}
