"""DefaultBinder: bind the pod through the API server."""

from __future__ import annotations

from mooring.framework.cycle_state import CycleState
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error


class DefaultBinder(Plugin):
    """Posts the Binding; what the API server answers to it is the outcome."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        client = self.handle.client
        if client is None:
            return error("no client to bind with")
        try:
            await client.bind(pod, node_name)
        except Exception as refusal:  # what the API server said to it, or that it said nothing
            return error(str(refusal), refusal)
        return None
