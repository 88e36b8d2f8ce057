"""Values of ConfigMaps and Secrets, as kubelets read them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mooring.api.meta import ObjectMeta
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.kubelet import configuration
from mooring.sandbox.kubelet.configuration import CONFIG_MAPS, Configuration
from mooring.sandbox.programs.sources import Data, Sources
from mooring.sandbox.programs.specs import PodRun


def pod(*names: str) -> PodRun:
    volumes = [{"name": name, "configMap": {"name": name}} for name in names]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    containers = [{"name": "c", "image": "app", "command": ["cat"], "volumeMounts": mounts}]
    return msgspec.convert({"spec": {"containers": containers, "volumes": volumes}}, PodRun)


async def read(reader: Configuration, *names: str) -> dict[str, Data | None]:
    sources = await reader.read(pod(*names), Sources(ObjectMeta(name="p", namespace="default")))
    return dict(sources.config_maps or {})


def config_map(name: str, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}}


def test_pods_share_the_values_of_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand pods that mount a ConfigMap of 1 MiB would have 1 GiB of copies otherwise."""
    monkeypatch.setattr(configuration, "_MOST_SHARED", 2)

    async def main() -> None:
        async with EmbeddedServer() as server:
            reader = Configuration(server.cluster)
            for name in ("a", "b", "c"):
                await server.cluster.create(CONFIG_MAPS, config_map(name, "old"), "default")
            first, second = await read(reader, "a"), await read(reader, "a")
            assert first["a"] == {"key": "old"}
            assert first["a"] is second["a"]
            await server.cluster.patch(CONFIG_MAPS, "a", {"data": {"key": "new"}}, "default")
            assert (await read(reader, "a", "missing")) == {"a": {"key": "new"}, "missing": None}
            await read(reader, "b", "c")
            assert len(reader._shared) == 2

    asyncio.run(main())
