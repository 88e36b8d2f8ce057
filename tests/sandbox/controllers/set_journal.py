"""What is seen of StatefulSets, DaemonSets and Jobs while a scene is played, with all that is random or a
matter of time left out."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TypeVar

from tests.sandbox.controllers.kit import Stage, Tree, WholeEvent

T = TypeVar("T")

TIMES = ("startTime", "completionTime")
RANDOM = re.compile(r"(?<=web|b-\d)-[bcdfghjklmnpqrstvwxz2456789]{5}\b")  # the names of pods
HASHES = "controller-revision-hash"


class Journal:
    """Takes notes of the objects of one kind, of their revisions, claims and pods."""

    def __init__(self, stage: Stage, plural: str) -> None:
        self._stage = stage
        self._plural = plural
        self._pages: list[Tree] = []
        self._hashes: dict[str, str] = {}  # as found: as written; StatefulSets' are the same everywhere

    async def note(self, what: str) -> None:
        """Once everything has come to rest: how it is after this. What was so before is not told again."""
        await self._stage.rest()
        revisions = sorted(await self._stage.all("controllerrevisions"), key=lambda one: one["revision"])
        for revision in revisions if self._plural == "daemonsets" else ():
            found = revision["metadata"]["labels"][HASHES]
            self._hashes.setdefault(found, f"<{len(self._hashes) + 1}>")
        owners = await self._stage.all(self._plural)
        claims = await self._stage.all("persistentvolumeclaims")
        pods = await self._stage.all("pods")
        page: Tree = {
            self._plural: {one["metadata"]["name"]: _owner(one) for one in owners},
            "revisions": {one["metadata"]["name"]: _revision(one) for one in revisions},
            "claims": {one["metadata"]["name"]: _claim(one) for one in claims},
            "pods": _pods(pods, named=self._plural == "statefulsets"),
        }
        page = self._alike({field: seen for field, seen in page.items() if seen})
        if not self._pages or {**self._pages[-1], "after": ""} != {**page, "after": ""}:
            self._pages.append({"after": what, **page})

    async def result(self) -> Tree:
        """All pages, and for each object and reason the events, but not those that combine others."""
        told: dict[str, list[str]] = {}
        for event in await self._stage.events():
            if not event.message.startswith("(combined"):
                about, note = map(self._alike, _event(event))
                told.setdefault(about, []).append(note)
        events = {about: sorted(notes) for about, notes in sorted(told.items())}
        return self._alike({"pages": self._pages, "events": events})

    def _alike(self, tree: T) -> T:
        text = json.dumps(tree, ensure_ascii=False)
        for found, written in self._hashes.items():
            text = text.replace(found, written)
        alike: T = json.loads(RANDOM.sub("-…", text))
        return alike


def _owner(owner: Tree) -> Tree:
    status = {field: seen for field, seen in owner["status"].items() if field != "conditions"}
    for field in TIMES:
        if field in status:
            status[field] = "set"
    conditions = [
        f"{one['type']}={one['status']} {one.get('reason')}: {one.get('message')}"
        for one in owner["status"].get("conditions", [])
    ]
    leaving = {"leaving": True} if "deletionTimestamp" in owner["metadata"] else {}
    return {"status": status, "conditions": conditions, **leaving}


def _revision(revision: Tree) -> Tree:
    meta = revision["metadata"]
    return {"revision": revision["revision"], "labels": meta["labels"], "owners": _owners(meta)}


def _claim(claim: Tree) -> Tree:
    meta = claim["metadata"]
    return {"labels": meta.get("labels", {}), "owners": _owners(meta)}


def _owners(meta: Tree) -> list[str]:
    return [f"{one['kind']} {one['name']}" for one in meta.get("ownerReferences", [])]


def _pods(pods: list[Tree], *, named: bool) -> Tree:
    if named:
        return {pod["metadata"]["name"]: _named_pod(pod) for pod in pods}
    return dict(sorted(Counter(map(_words, pods)).items()))


def _words(pod: Tree) -> str:
    meta = pod["metadata"]
    labels = {k: v for k, v in meta.get("labels", {}).items() if not k.endswith("controller-uid")}
    conditions = pod["status"].get("conditions", [])
    words = (
        pod["status"].get("phase", ""),
        "ready" if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions) else "",
        "leaving" if "deletionTimestamp" in meta else "",
        " ".join(f"{key}={value}" for key, value in sorted(labels.items())),
        " ".join(f"{key}:{value}" for key, value in sorted(meta.get("annotations", {}).items())),
        ",".join(_owners(meta)),
        " ".join(meta.get("finalizers", [])),
        pod["spec"].get("hostname", ""),
    )
    return "; ".join(filter(None, words))


def _named_pod(pod: Tree) -> Tree:
    spec = pod["spec"]
    claims = [(one["name"], one["persistentVolumeClaim"]["claimName"]) for one in spec.get("volumes", [])]
    volumes = [f"{name}: {claim}" for name, claim in claims]
    return {"words": _words(pod), "subdomain": spec.get("subdomain"), "volumes": volumes}


def _event(event: WholeEvent) -> tuple[str, str]:
    about = event.involved_object
    who = event.reporting_component or event.source.get("component")
    return f"{about['kind']} {about['name']} {event.reason}", f"{event.type} {who}: {event.message}"
