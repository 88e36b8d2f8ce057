"""Eviction of pods that use more local storage than they may."""

from __future__ import annotations

from tests.sandbox.kubelet.kit import Nodes, Tree, play


def spec(script: str, *, limit: str = "", volume: Tree | None = None, **fields: object) -> Tree:
    """Return the spec of a pod that runs a script, with an emptyDir at /cache."""
    container: Tree = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }
    if limit:
        container["resources"] = {"limits": {"ephemeral-storage": limit}}
    volumes = [{"name": "cache", "emptyDir": volume or {}}]
    return {"containers": [container], "volumes": volumes, **fields}


def fill(path: str, size: str = "10") -> str:
    return f"sleep 15; dd if=/dev/zero of={path} bs=1M count={size}; sleep 1d"


def test_a_pod_that_exceeds_a_limit_is_evicted() -> None:
    total = "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "
    scenes = {
        "volume": (
            spec(fill("/cache/big"), volume={"sizeLimit": "8Mi"}),
            'Usage of EmptyDir volume "cache" exceeds the limit "8Mi". ',
        ),
        "layer": (spec(fill("/tmp/big"), limit="5Mi"), total),
        "sum": (spec(fill("/cache/big"), limit="5Mi"), total),
    }
    kept = {
        "below": spec(fill("/cache/big"), limit="11Mi", volume={"sizeLimit": "11Mi"}),
        "unlimited": spec(fill("/cache/big")),
        "in-memory": spec(fill("/cache/big"), limit="5Mi", volume={"medium": "Memory"}),
        "removed": spec(fill("/cache/big").replace("sleep 1d", "rm /cache/big; sleep 1d"), limit="5Mi"),
    }

    async def scene(stage: Nodes) -> None:
        for name, body in {**{name: body for name, (body, _) in scenes.items()}, **kept}.items():
            await stage.run_pod(name, **body)
        await stage.advance(14)
        assert {await stage.phase(name) for name in (*scenes, *kept)} == {"Running"}
        await stage.advance(13)
        for name, (_, message) in scenes.items():
            status = await stage.status(name)
            assert [status[field] for field in ("phase", "reason", "message")] == [
                "Failed", "Evicted", message,
            ], name  # fmt: skip
            ended = status["containerStatuses"][0]["state"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (137, "Error")
            assert {"Evicted", "Killing"} <= set(await stage.reasons(name))
        assert {await stage.phase(name) for name in kept} == {"Running"}

    play(scene)


def test_a_critical_pod_is_not_evicted() -> None:
    async def scene(stage: Nodes) -> None:
        await stage.run_pod(
            "critical", **spec(fill("/tmp/big"), limit="5Mi"), priorityClassName="system-node-critical"
        )
        await stage.advance(60)
        assert await stage.phase("critical") == "Running"

    play(scene)
