"""What is seen of a cluster while a scene is played, with all that is random or a matter of time left out."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TypeVar

from tests.sandbox.controllers.kit import Stage, Tree, WholeEvent

T = TypeVar("T")

HASH = "pod-template-hash"
RANDOM = re.compile(r"(?<=web|<.>)-[bcdfghjklmnpqrstvwxz2456789]{5}\b")  # the names of pods


class Journal:
    """Takes notes of Deployments, ReplicaSets and pods; hashes and names are written alike in every run."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._pages: list[Tree] = []
        self._names: dict[str, str] = {}  # as found: as written

    async def note(self, what: str) -> None:
        """Once everything has come to rest: how it is after this. What was so before is not told again."""
        await self._stage.rest()
        replica_sets = sorted(await self._stage.all("replicasets"), key=_revision)
        pods = await self._stage.all("pods")
        for rs in replica_sets:
            found = rs["metadata"].get("labels", {}).get(HASH)
            if found and found not in self._names:
                self._names[found] = f"<{len(self._names) + 1}>"
        deployments = await self._stage.all("deployments")
        page: Tree = {
            "deployments": {one["metadata"]["name"]: _deployment(one) for one in deployments},
            "replicasets": {one["metadata"]["name"]: _replica_set(one) for one in replica_sets},
            "pods": dict(sorted(Counter(map(_pod, pods)).items())),
        }
        page = self._alike(page)
        if not self._pages or {**self._pages[-1], "after": ""} != {**page, "after": ""}:
            self._pages.append({"after": what, **page})

    async def result(self) -> Tree:
        """All pages, and for each object and reason the events in order."""
        told: dict[str, list[str]] = {}
        for event in await self._stage.events():
            if event.message.startswith("(combined from similar events)"):
                continue
            about, note = map(self._alike, _event(event))
            notes = told.setdefault(about, [])
            if (
                event.reason != "FailedCreate" or note not in notes
            ):  # how often it is tried is a matter of time
                notes.append(note)
        return self._alike({"pages": self._pages, "events": dict(sorted(told.items()))})

    def _alike(self, tree: T) -> T:
        text = json.dumps(tree, ensure_ascii=False)
        for found, written in self._names.items():
            text = text.replace(found, written)
        text = RANDOM.sub("-…", text)
        alike: T = json.loads(text)
        return alike


def _revision(rs: Tree) -> tuple[int, str]:
    meta = rs["metadata"]
    number = int(meta.get("annotations", {}).get("deployment.kubernetes.io/revision", 0))
    return number, meta["creationTimestamp"]


def _conditions(status: Tree) -> list[str]:
    return [_condition(one) for one in status.get("conditions", [])]


def _condition(condition: Tree) -> str:
    said = f"{condition['type']}={condition['status']}"
    if condition["reason"] in ("NewReplicaSetCreated", "ReplicaSetUpdated"):
        return f"{said} in progress"  # which of the two is a matter of time
    return f"{said} {condition['reason']}: {condition['message']}"


def _status(status: Tree) -> Tree:
    return {field: count for field, count in status.items() if field != "conditions"}


def _deployment(deployment: Tree) -> Tree:
    return {
        "replicas": deployment["spec"].get("replicas"),
        "annotations": deployment["metadata"].get("annotations", {}),
        "status": _status(deployment["status"]),
        "conditions": _conditions(deployment["status"]),
    }


def _replica_set(rs: Tree) -> Tree:
    """Without generations: how often it was written is nobody's business."""
    status = _status(rs["status"])
    status.pop("observedGeneration", None)
    return {
        "replicas": rs["spec"].get("replicas"),
        "annotations": rs["metadata"].get("annotations", {}),
        "labels": rs["metadata"].get("labels", {}),
        "selector": rs["spec"]["selector"],
        "owners": [f"{one['kind']} {one['name']}" for one in rs["metadata"].get("ownerReferences", [])],
        "status": status,
        "conditions": _conditions(rs["status"]),
    }


def _pod(pod: Tree) -> str:
    """What counts: of which ReplicaSet, how it is, what it is marked with."""
    meta = pod["metadata"]
    conditions = pod["status"].get("conditions", [])
    words = (
        ",".join(owner["name"] for owner in meta.get("ownerReferences", [])) or "nobody's",
        pod["status"].get("phase", ""),
        "ready" if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions) else "",
        "leaving" if "deletionTimestamp" in meta else "",
        meta.get("annotations", {}).get("mark", ""),
    )
    return " ".join(filter(None, words))


def _event(event: WholeEvent) -> tuple[str, str]:
    about = event.involved_object
    who = event.reporting_component or event.source.get("component")
    return f"{about['kind']} {about['name']} {event.reason}", f"{event.type} {who}: {event.message}"
