"""Scenes of resource claims: made from templates, reserved, deallocated, deleted. They are played on
kube-controller-manager for the recording, and on ours."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from tests.sandbox.controllers.kit import CORE_EVENTS, Stage, Tree, template

FINALIZER = "resource.kubernetes.io/delete-protection"
_SUFFIX = re.compile(r"-?[bcdfghjklmnpqrstvwxz2456789]{5}$")


class Journal:
    """Takes notes of claims and of what pods say of them; generated names lose their random part."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._pages: list[Tree] = []

    async def note(self, what: str, *, after: float | None = None) -> None:
        if after is None:
            await self._stage.rest()
        else:
            await self._stage.advance(after)
        claims = [_claim(one) for one in await self._stage.all("resourceclaims")]
        pods = {one["metadata"]["name"]: _pod(one) for one in await self._stage.all("pods")}
        claims.sort(key=lambda claim: (claim["name"], str(claim)))
        self._pages.append({"after": what, "claims": claims, "pods": pods})

    async def result(self) -> Tree:
        """All pages, and the warnings about pods, each once."""
        told: dict[str, set[str]] = {}
        for event in (await self._stage.cluster.list(CORE_EVENTS, namespace=self._stage.namespace)).items:
            source = event.reporting_component or event.source.get("component", "")
            about = f"{event.involved_object['kind']} {event.involved_object['name']}"
            told.setdefault(about, set()).add(f"{source} {event.type} {event.reason}: {event.message}")
        return {"pages": self._pages, "events": {about: sorted(told[about]) for about in sorted(told)}}


def _claim(one: Tree) -> Tree:
    meta, status = one["metadata"], one["status"]
    shape = {
        "base": meta.get("generateName", ""),
        "labels": meta.get("labels", {}),
        "annotations": meta.get("annotations", {}),
        "owners": [
            {
                name: owner.get(name)
                for name in ("apiVersion", "kind", "name", "controller", "blockOwnerDeletion")
            }
            for owner in meta.get("ownerReferences", [])
        ],
        "finalizers": meta.get("finalizers", []),
        "leaving": "deletionTimestamp" in meta,
        "spec": one["spec"],
        "allocated": "allocation" in status,
        "reserved": [consumer["name"] for consumer in status.get("reservedFor", [])],
        "devices": len(status.get("devices", [])),
    }
    name = _SUFFIX.sub("-…", meta["name"]) if meta.get("generateName") else meta["name"]
    return {"name": name, **{part: value for part, value in shape.items() if value}}


def _pod(one: Tree) -> list[str]:
    told = [
        f"{status['name']}: {_SUFFIX.sub('-…', status.get('resourceClaimName', 'none'))}"
        for status in one["status"].get("resourceClaimStatuses", [])
    ]
    told += [
        f"{condition['type']} {condition['reason']}: {condition['message']}"
        for condition in one["status"].get("conditions", [])
        if condition["type"] == "DisruptionTarget"
    ]
    return [*told, "leaving"] if "deletionTimestamp" in one["metadata"] else told


# ---- what there is


def requests(name: str = "gpu") -> Tree:
    return {"devices": {"requests": [{"name": name, "exactly": {"deviceClassName": "gpu", "count": 2}}]}}


def claim(name: str, **metadata: Any) -> Tree:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": requests(),
    }


def claim_template(name: str, **metadata: Any) -> Tree:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": metadata, "spec": requests()},
    }


def pod(name: str, *entries: Tree, **spec: Any) -> Tree:
    made = template("app", **spec)
    made["spec"]["resourceClaims"] = list(entries)
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {"name": name}}


def from_template(name: str, source: str = "template") -> Tree:
    return {"name": name, "resourceClaimTemplateName": source}


def existing(name: str, claim: str) -> Tree:
    return {"name": name, "resourceClaimName": claim}


async def allocate(
    stage: Stage, name: str, *consumers: str, protect: bool = True, device: str = "gpu-0", **more: Any
) -> None:
    """Do what the scheduler does: finalizer, allocation, reservations."""
    if protect:
        await stage.patch("resourceclaims", name, {"metadata": {"finalizers": [FINALIZER]}})
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n0", "device": device, **more}
    reserved = []
    for consumer in consumers:
        uid = (await stage.get("pods", consumer))["metadata"]["uid"]
        reserved.append({"resource": "pods", "name": consumer, "uid": uid})
    devices = [{"driver": "gpu.example.com", "pool": "n0", "device": device}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved, "devices": devices}
    await stage.patch("resourceclaims", name, {"status": status}, "status")


async def generated(stage: Stage, pod_name: str, entry: str = "gpu") -> str:
    statuses = (await stage.get("pods", pod_name))["status"]["resourceClaimStatuses"]
    return str(next(one["resourceClaimName"] for one in statuses if one["name"] == entry))


# ---- scenes


async def claims_from_templates(stage: Stage) -> Tree:
    """Claims are made for pods, again where they are lost, and not where there is no template."""
    journal = Journal(stage)
    await stage.create(pod("early", from_template("gpu")))
    await journal.note("a pod without its template", after=1.5)
    await stage.create(claim_template("template", labels={"a": "b"}, annotations={"c": "d"}))
    await journal.note("the template")
    await stage.create(pod("two", from_template("gpu"), from_template("more"), existing("own", "mine")))
    await journal.note("a pod with two claims from it, and one that is missing")
    await stage.create(claim("mine"))
    await journal.note("the claim that was missing")
    long = "a-name-that-is-long-enough-to-be-cut-off-when-the-claim-is-named"
    await stage.create(pod(long, from_template("entry-with-a-long-name")))
    await journal.note("long names")
    await stage.patch(
        "resourceclaims", await generated(stage, "early"), {"metadata": {"ownerReferences": None}}
    )
    await journal.note("a claim that lost its owner")
    return await journal.result()


async def claims_used(stage: Stage) -> Tree:
    """Reservations end with pods, then allocations, then claims that were made for pods."""
    journal = Journal(stage)
    await stage.create(claim_template("template"))
    await stage.create(claim("shared"))
    for name in ("one", "two"):
        await stage.create(pod(name, from_template("gpu"), existing("shared", "shared")))
    await stage.rest()
    for name in ("one", "two"):
        await allocate(stage, await generated(stage, name), name)
    await allocate(stage, "shared", "one", "two")
    for name in ("one", "two"):
        await stage.bind(name, "n0")
        await stage.set_ready(name)
    await journal.note("two pods run")
    await stage.end_pod("one")
    await journal.note("one has ended")
    await stage.delete("pods", "two")
    await journal.note("the other is deleted, and still runs")
    await stage.delete("pods", "two", grace=0)
    await journal.note("the other is gone")
    await stage.delete("pods", "one", grace=0)
    await journal.note("both are gone")
    return await journal.result()


async def claims_deleted(stage: Stage) -> Tree:
    """Claims that are deleted while they are allocated or used; pods that never ran."""
    journal = Journal(stage)
    await stage.create(claim_template("template"))
    for name in ("idle", "used", "bare"):
        await stage.create(claim(name))
    await stage.create(pod("user", existing("used", "used"), existing("bare", "bare")))
    await stage.create(pod("waiting", from_template("gpu")))
    await stage.rest()
    await allocate(stage, "idle")
    await allocate(stage, "used", "user")
    await allocate(stage, "bare", "user", protect=False)
    await stage.bind("user", "n0")
    await journal.note("allocated claims")
    for name in ("idle", "used"):
        await stage.delete("resourceclaims", name)
    await journal.note("deleted")
    await stage.end_pod("user")
    await journal.note("the user has ended")
    await stage.delete("pods", "waiting")
    await journal.note("a pod that was never placed is deleted")
    return await journal.result()


async def claims_reserved(stage: Stage) -> Tree:
    """The controller reserves claims for pods that were created with a node, and for no others."""
    journal = Journal(stage)
    await stage.create(claim_template("template"))
    await stage.create(claim("shared"))
    await stage.create(pod("placed", from_template("gpu"), existing("shared", "shared"), nodeName="n0"))
    await stage.create(pod("unplaced", existing("shared", "shared")))
    await journal.note("a pod with a node, and one without")
    await allocate(stage, "shared")
    await allocate(stage, await generated(stage, "placed"))
    await journal.note("the claims are allocated")
    await stage.bind("unplaced", "n0")
    await journal.note("the other has a node, too")
    return await journal.result()


def device_slice(*taints: Tree) -> Tree:
    """The devices of a node; the first has taints."""
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1"}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "claims-tainted"},
        "spec": {"driver": "gpu.example.com", "nodeName": "n0", "pool": pool, "devices": devices},
    }


async def claims_tainted(stage: Stage) -> Tree:
    """Pods leave devices that are tainted, unless their claims tolerate that, for a while or for good."""
    journal = Journal(stage)
    await stage.create(device_slice())
    for name in ("plain", "patient", "stoic", "elsewhere"):
        await stage.create(claim(name))
        await stage.create(pod(name, existing("gpu", name)))
    tolerated = {"key": "old", "operator": "Exists", "effect": "NoExecute"}
    await allocate(stage, "plain", "plain")
    await allocate(stage, "patient", "patient", tolerations=[{**tolerated, "tolerationSeconds": 6}])
    await allocate(stage, "stoic", "stoic", tolerations=[tolerated])
    await allocate(stage, "elsewhere", "elsewhere", device="gpu-1")
    for name in ("plain", "patient", "stoic", "elsewhere"):
        await stage.bind(name, "n0")
        await stage.set_ready(name)
    await journal.note("pods run")

    async def taint(*taints: Tree) -> None:
        await stage.patch("resourceslices", "claims-tainted", device_slice(*taints))

    await taint({"key": "a", "effect": "NoSchedule"})
    await journal.note("a taint that does not evict")
    await taint({"key": "old", "effect": "NoExecute"})
    await journal.note("a taint that evicts", after=2.5)
    await taint()
    await journal.note("no taint any more", after=1.5)
    await taint({"key": "old", "effect": "NoExecute"})
    await journal.note("the taint again, for longer than one tolerates", after=10)
    await stage.delete("resourceslices", "claims-tainted")
    return await journal.result()


SCENES: dict[str, Callable[[Stage], Awaitable[Tree]]] = {
    scene.__name__: scene
    for scene in (claims_from_templates, claims_used, claims_deleted, claims_reserved, claims_tainted)
}


async def play_scene(name: str, stage: Stage) -> Tree:
    await stage.enter(name.replace("_", "-"))
    return await SCENES[name](stage)
