"""Common to all controllers of pods: watching, creating and deleting them, with events."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from mooring.api.kinds import PODS, ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.selectors import Selector
from mooring.api.times import parse_time
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller
from mooring.sandbox.controllers.owning import concerned, index_orphans

Owner = TypeVar("Owner", bound=KubeObject)


class PodController(Controller, Generic[Owner]):
    """Looks after objects of one kind that own pods: `owners`. They are enqueued when they change, and when
    pods change that they own or may adopt."""

    def __init__(self, context: Context, resource: ApiResource[Owner]) -> None:
        super().__init__(context)
        self.owners = self.cache.follow(resource)
        self.pods = self.cache.follow(PODS)
        index_orphans(self.pods)
        self.owners.subscribe(self.owner_changed)
        self.pods.subscribe_owner(self.owners.kind, self.pod_changed)

    @abstractmethod
    def selector_of(self, owner: Owner) -> Selector:
        """Which pods an owner selects."""

    # ---- hearing

    def owner_changed(self, old: Owner | None, new: Owner | None) -> None:
        changed = new or old
        assert changed is not None
        self.enqueue(changed.key)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for key in concerned(self.owners, self.selector_of, old, new):
            self.pod_of_changed(key, old, new)

    def pod_of_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """A pod of the owner with this key, or one that it may adopt, changed, came or went."""
        self.enqueue(key)

    # ---- writing

    async def create_pod(self, owner: Owner, body: dict[str, Any]) -> Pod:
        """Create a pod and emit an event for its owner, unless the namespace is terminating."""
        try:
            pod = await self.create(self.pods, body, owner.namespace)
        except ApiError as refusal:
            if not refusal.namespace_terminating:
                self.event(self.owners, owner, "Warning", "FailedCreate", f"Error creating: {refusal}")
            raise
        self.event(self.owners, owner, "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")
        return pod

    async def delete_pod(self, owner: Owner, pod: Pod) -> None:
        """Delete a pod and emit an event for its owner."""
        try:
            await self.delete(self.pods, pod)
        except ApiError as refusal:
            self.event(self.owners, owner, "Warning", "FailedDelete", f"Error deleting: {refusal}")
            raise
        self.event(self.owners, owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")


def available_in(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """In how many seconds a pod will be available if it stays ready: 0 where it is; None where it is not
    ready."""
    since = pod.ready_since
    if since is None:
        return None
    if min_ready_seconds == 0:
        return 0.0
    if not since:
        return None
    return max(0.0, parse_time(since) + min_ready_seconds - now)
