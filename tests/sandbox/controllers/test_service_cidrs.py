"""Ranges of addresses for Services."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.kinds import SERVICES
from mooring.client.api_errors import ApiError
from mooring.sandbox.controllers.service_cidrs import FINALIZER, RANGES, ServiceCIDRs
from tests.sandbox.controllers.kit import Embedded, play


def test_a_range_is_ready_and_stays_while_services_use_it() -> None:
    async def scene(stage: Embedded) -> None:
        async def serve(name: str, address: str) -> Any:
            spec = {"clusterIP": address, "ports": [{"port": 80}]}
            body = {"metadata": {"name": name}, "spec": spec}
            return await stage.cluster.create(SERVICES, body, "default")

        with pytest.raises(ApiError, match="does not match the current range"):
            await serve("early", "192.168.7.5")
        await stage.cluster.create(
            RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["192.168.7.0/24"]}}
        )
        await stage.rest()
        made = await stage.cluster.get(RANGES, "more")
        assert (made.readiness, made.metadata.finalizers) == ("True", [FINALIZER])
        await serve("web", "192.168.7.5")
        await stage.cluster.delete(RANGES, "more")
        await stage.rest()
        (condition,) = (await stage.cluster.get(RANGES, "more")).status.conditions
        assert (condition["status"], condition["reason"]) == ("False", "Terminating")
        with pytest.raises(ApiError, match="does not match the current range"):
            await serve("late", "192.168.7.6")
        await stage.cluster.delete(SERVICES, "web", "default")
        await stage.rest()
        with pytest.raises(ApiError, match="not found"):
            await stage.cluster.get(RANGES, "more")

    play(scene, ServiceCIDRs)
