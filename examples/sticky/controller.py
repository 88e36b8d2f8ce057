"""The controller of StickyJobs: runs `spec.template` as a pod, again whenever that ends or is deleted.

python controller.py [--kubeconfig FILE]
"""

import argparse
import asyncio
import json
import time

from sticky import GROUP, STICKY_JOBS

from mooring.api.kinds import PODS
from mooring.client.api_server import ApiServer
from mooring.client.cache import Cache
from mooring.client.controller import Context, Controller
from mooring.client.credentials import load_user_credentials
from mooring.client.event_recorder import EventRecorder

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class StickyJobController(Controller):
    """Sees to it that every StickyJob has one pod."""

    name = "stickyjob-controller"

    def __init__(self, context):
        super().__init__(context)
        self.jobs = context.cache.follow(STICKY_JOBS)
        self.pods = context.cache.follow(PODS)
        self.jobs.subscribe(lambda old, new: self.enqueue((new or old).key))
        self.pods.subscribe(self._pod_changed)

    def _pod_changed(self, old, new):
        owner = (new or old).metadata.controller()
        if owner is not None and owner.kind == "StickyJob":
            self.enqueue(f"{(new or old).namespace}/{owner.name}")

    async def sync(self, key):
        job = self.jobs.get(key)
        if job is None or job.metadata.deletion_timestamp is not None:
            return
        pods = self.pods.controlled_by(job.uid)
        for pod in pods:
            if pod.finished and pod.metadata.deletion_timestamp is None:
                await self.delete(self.pods, pod)
        if any(not pod.finished for pod in pods):
            return  # it runs, or the last one is still on its way out
        template = template_of(job)
        if not template.get("spec"):
            note = "spec.template has no pod spec; a schema without its fields makes the API server drop them"
            self.event(self.jobs, job, "Warning", "NoTemplate", note)
            return
        await self.create(self.pods, pod_of(job, template), job.namespace)


def template_of(job):
    """The pod template. The document's definition declares it as an object without fields, so that API
    servers drop what is in it; `kubectl apply` keeps a copy of what was applied."""
    if job.spec.template:
        return job.spec.template
    applied = json.loads(job.metadata.annotations.get(LAST_APPLIED, "{}"))
    return applied.get("spec", {}).get("template", {})


def pod_of(job, template):
    metadata = dict(template.get("metadata", {}))
    owner = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "StickyJob",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": f"{job.name}-", "ownerReferences": [owner]},
        "spec": template["spec"],
    }


async def main(kubeconfig):
    cluster = ApiServer(load_user_credentials(kubeconfig))
    recorder = EventRecorder(cluster, StickyJobController.name)
    cache = Cache(cluster)
    controller = StickyJobController(Context(cluster, cache, recorder, time.time))
    async with asyncio.TaskGroup() as group:
        for part in (cache, recorder, controller):
            group.create_task(part.run())


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--kubeconfig", default="")
    asyncio.run(main(options.parse_args().kubeconfig))
