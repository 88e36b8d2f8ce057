"""Sticky jobs: a plugin that brings a StickyJob's pod back to the node where it ran last."""

import enum

import msgspec

from mooring.api.meta import ObjectMeta, Struct
from mooring.api.times import format_time, parse_time
from mooring.client.api_errors import ApiError
from mooring.framework import (
    Action,
    ApiResource,
    Args,
    KubeObject,
    Plugin,
    Problem,
    Resource,
    StateKey,
    requeue_on,
    skip,
    unresolvable,
)

GROUP = "example.com"
TRIES = 5


class StickyJobStatus(Struct):
    last_node: str = ""


class StickyJobSpec(Struct):
    template: dict = {}


class StickyJob(KubeObject):
    spec: StickyJobSpec = msgspec.field(default_factory=StickyJobSpec)
    status: StickyJobStatus = msgspec.field(default_factory=StickyJobStatus)


STICKY_JOBS = ApiResource(GROUP, "v1", "stickyjobs", True, StickyJob)


class Mode(enum.StrEnum):
    PREFERRED = "preferred"
    REQUIRED = "required"


class StickyNodeArgs(Args):
    mode: Mode = Mode.PREFERRED
    timeout_seconds: float = 300  # how long a required node is waited for, from the pod's creation

    def problems(self):
        if self.timeout_seconds < 0:
            yield Problem("timeoutSeconds", "must not be negative", self.timeout_seconds)


LAST_NODE = StateKey[str]("the node that the job ran on last")


class StickyNode(Plugin[StickyNodeArgs]):
    """Brings the pod of a StickyJob back to its last node: preferred, or required for a time."""

    name = "StickyNode"
    watches = (STICKY_JOBS,)

    def pre_filter(self, state, pod, nodes):
        owner = self._owner(pod)
        if owner is None:
            return skip()
        job = self.handle.listers.get(StickyJob, owner.name, pod.namespace)
        if job is None:
            return unresolvable(f"its StickyJob {owner.name} is not known yet")
        if not job.status.last_node:
            return skip()
        state.write(LAST_NODE, job.status.last_node)
        return None

    def filter(self, state, pod, node):
        last = state.read(LAST_NODE)
        until = parse_time(pod.metadata.creation_timestamp) + self.args.timeout_seconds
        if self.args.mode is Mode.PREFERRED or node.name == last or self.handle.now() >= until:
            return None
        reason = f"node(s) were not {last}, where the job ran last; others are tried at {format_time(until)}"
        return unresolvable(reason, not_before=until)

    def pre_score(self, state, pod, nodes):
        return skip() if state.get(LAST_NODE) is None else None

    def score(self, state, pod, node):
        return 100 if node.name == state.read(LAST_NODE) else 0

    async def post_bind(self, state, pod, node_name):
        """Write down where the job runs now. Another scheduler may do the same with its own pods."""
        owner = self._owner(pod)
        if owner is None or self.handle.client is None or state.get(LAST_NODE) == node_name:
            return
        job = StickyJob(metadata=ObjectMeta(name=owner.name, namespace=pod.namespace))
        for _ in range(TRIES):
            try:
                await self.handle.client.patch(job, {"status": {"lastNode": node_name}}, "status")
                return
            except ApiError as refusal:
                if refusal.not_found:
                    return  # the job is gone
                if not (refusal.conflict or refusal.transient):
                    raise
        self.handle.logger.warning("StickyJob %s: lastNode could not be set to %s", job.key, node_name)

    def events_to_register(self):
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE)
        yield requeue_on(Resource.POD, Action.DELETE)
        yield requeue_on(STICKY_JOBS.name, Action.ALL)

    def _owner(self, pod):
        owner = pod.metadata.controller()
        ours = owner and owner.kind == "StickyJob" and owner.api_version.partition("/")[0] == GROUP
        return owner if ours else None
