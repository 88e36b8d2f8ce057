"""Events expire."""

from __future__ import annotations

from mooring.api.times import format_time
from mooring.sandbox.controllers.event_expiry import EventExpiry
from tests.sandbox.controllers.kit import Embedded, play


async def tell(stage: Embedded, name: str) -> None:
    regarding = {"kind": "Pod", "namespace": "default", "name": "p"}
    await stage.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": regarding,
            "lastTimestamp": format_time(stage.now()),
        }
    )


async def names(stage: Embedded) -> list[str]:
    return [event.name for event in await stage.events()]


def test_events_expire_an_hour_after_they_were_last_written() -> None:
    async def scene(stage: Embedded) -> None:
        await stage.rest()
        await tell(stage, "early")
        await tell(stage, "often")
        await stage.advance(1800)
        await tell(stage, "late")
        await stage.patch("events", "often", {"lastTimestamp": format_time(stage.now())})
        await stage.advance(1790)
        assert await names(stage) == ["early", "late", "often"]
        await stage.advance(80)
        assert await names(stage) == ["late", "often"]
        await stage.advance(1800)
        assert await names(stage) == []
        await tell(stage, "again")
        await stage.advance(3 * 3600)
        assert await names(stage) == []

    play(scene, EventExpiry)
