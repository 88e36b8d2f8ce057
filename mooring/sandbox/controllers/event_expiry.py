"""Events expire an hour after they were last written. (A real API server has etcd do that.)

Events are not watched for this, since they are many: they are listed when the oldest of them is due, and
events after a list cannot be due before an hour has passed.
"""

from __future__ import annotations

import asyncio

from mooring.api.events import Event
from mooring.api.kinds import EVENTS
from mooring.client.api_errors import ApiError
from mooring.client.controller import Context, Controller

LIFETIME = 3600.0  # seconds
LEAST_PAUSE = 60.0  # between two looks
PAGE = 500
TURN = 64


class EventExpiry(Controller):
    name = "event-expiry-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.enqueue("")

    async def sync(self, key: str) -> None:
        oldest = self.context.clock()
        token = ""
        while True:
            page = await self.cluster.list(EVENTS, limit=PAGE, continue_token=token)
            for count, event in enumerate(page.items, 1):
                written = event.last_written
                if written + LIFETIME <= self.context.clock():
                    await self._expire(event)
                else:
                    oldest = min(oldest, written)
                if count % TURN == 0:
                    await asyncio.sleep(0)
            token = page.continue_token
            if not token:
                break
        self.enqueue("", max(oldest + LIFETIME - self.context.clock(), LEAST_PAUSE))

    async def _expire(self, event: Event) -> None:
        try:
            await self.cluster.delete(EVENTS, event.name, event.namespace, uid=event.uid)
        except ApiError as refusal:
            if not (refusal.not_found or refusal.conflict):
                raise
