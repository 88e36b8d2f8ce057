"""A scene of CronJobs, played on kube-controller-manager for the recording and on ours."""

from __future__ import annotations

import json
import re
from typing import TypeVar

from tests.sandbox.controllers.kit import Stage, Tree, template

T = TypeVar("T")
MINUTES = re.compile(r"(?<=[a-z])-(\d{8,})\b")  # in the names of Jobs: minutes since the epoch
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class Journal:
    """Takes notes of CronJobs and their Jobs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._pages: list[Tree] = []
        self._minutes: list[str] = []

    async def note(self, what: str) -> None:
        await self._stage.rest()
        page: Tree = {"after": what}
        for plural, seen in (("cronjobs", _cron_job), ("jobs", _job)):
            page[plural] = {one["metadata"]["name"]: seen(one) for one in await self._stage.all(plural)}
        self._minutes = sorted({*self._minutes, *MINUTES.findall(json.dumps(page))})
        self._pages.append(page)

    async def result(self) -> Tree:
        told: dict[str, list[str]] = {}
        for event in await self._stage.events():
            about = event.involved_object
            if about["kind"] == "CronJob":
                told.setdefault(f"{about['name']} {event.reason}", []).append(f"{event.type} {event.message}")
        return self._alike({"pages": self._pages, "events": {key: sorted(told[key]) for key in sorted(told)}})

    def _alike(self, tree: T) -> T:
        text = json.dumps(tree)
        for number, minutes in enumerate(self._minutes, 1):
            text = text.replace(minutes, f"<{number}>")
        alike: T = json.loads(text)
        return alike


def _cron_job(cron_job: Tree) -> Tree:
    status = dict(cron_job["status"])
    active = [f"{one['apiVersion']} {one['kind']} {one['name']}" for one in status.pop("active", [])]
    return {"active": active, "status": sorted(status)}


def _job(job: Tree) -> Tree:
    meta, conditions = job["metadata"], job["status"].get("conditions", [])
    return {
        "labels": {key: value for key, value in meta.get("labels", {}).items() if "uid" not in key},
        "scheduled": SCHEDULED_AT in meta["annotations"],
        "owners": [f"{one['kind']} {one['name']}" for one in meta["ownerReferences"]],
        "conditions": [one["type"] for one in conditions],
    }


def cron_job(name: str, **spec: object) -> Tree:
    job = {"metadata": {"labels": {"of": name}}, "spec": {"template": template(name, restartPolicy="Never")}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec},
    }


async def next_minute(stage: Stage) -> None:
    await stage.advance(63 - stage.now() % 60)


async def succeed(stage: Stage, name: str) -> None:
    """The pods of a CronJob's Jobs end well."""
    for pod in await stage.all("pods", f"app={name}"):
        if pod["status"].get("phase") == "Pending":
            await stage.bind(pod["metadata"]["name"], "n0")
            await stage.end_pod(pod["metadata"]["name"])
    await stage.advance(3)


async def cron_policies(stage: Stage, journal: Journal) -> None:
    """Three that go off every minute: one whose Jobs succeed, and two whose Jobs last, with either policy."""
    await next_minute(stage)
    await stage.create(cron_job("allow", successfulJobsHistoryLimit=1))
    await stage.create(cron_job("forbid", concurrencyPolicy="Forbid"))
    await stage.create(cron_job("replace", concurrencyPolicy="Replace"))
    await stage.create(cron_job("idle", suspend=True))
    await journal.note("created")
    for minute in (1, 2):
        await next_minute(stage)
        await journal.note(f"minute {minute}")
        await succeed(stage, "allow")
        await journal.note(f"minute {minute}, ended")
    await succeed(stage, "forbid")
    await journal.note("late start")


SCENES = {"cron_policies": cron_policies}


async def play_scene(name: str, stage: Stage) -> Tree:
    """What is to be seen of a scene, in a namespace of its own."""
    await stage.enter(name.replace("_", "-"))
    journal = Journal(stage)
    await SCENES[name](stage, journal)
    return await journal.result()
