"""Pods that are being stopped: they go on to serve, and their readiness probes go on."""

from __future__ import annotations

from mooring.sandbox.network.slices import SLICES
from tests.sandbox.network.kit import Net, Tree, connected

SLOW: Tree = {"image": "agnhost", "args": ["netexec", "--delay-shutdown=100"]}


async def endpoint(net: Net) -> Tree:
    (slice,) = (await net.cluster.list(SLICES, namespace="default")).items
    assert slice.endpoints is not None
    (one,) = slice.endpoints
    return dict(one["conditions"])


def test_a_pod_that_is_stopped_becomes_unready_by_its_probe() -> None:
    probe = {"readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1}}

    async def scene(net: Net) -> None:
        await net.client()
        await net.serve("web", **SLOW, **probe)
        service = (await net.expose())["spec"]["clusterIP"]
        assert (await net.run(f"wget -qO- http://{service}/hostname"))[0] == 0
        await net.delete("pods", "web", grace=120)
        await net.advance(1)
        assert await endpoint(net) == {"ready": False, "serving": True, "terminating": True}
        assert (await net.run(f"wget -qO- http://{service}/hostname"))[1] == "web"
        await net.advance(5)
        assert await endpoint(net) == {"ready": False, "serving": False, "terminating": True}
        assert (await net.run(f"wget -qO- http://{service}/hostname"))[0] == 1

    connected(scene)


def test_liveness_does_not_count_while_a_pod_is_stopped() -> None:
    """The hook has the probe fail, as scripts do that take a server out of rotation."""
    hook: Tree = {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "rm /tmp/ok; sleep 30"]}}}}
    ask = {"exec": {"command": ["cat", "/tmp/ok"]}, "periodSeconds": 1}
    main: Tree = {"image": "busybox", "command": ["sh", "-c", "touch /tmp/ok; sleep 1d"]}

    async def scene(net: Net) -> None:
        await net.serve("web", **main, **hook, livenessProbe=ask, readinessProbe=ask)
        await net.delete("pods", "web", grace=60)
        await net.advance(20)
        status = (await net.get("pods", "web"))["status"]["containerStatuses"][0]
        assert (status["ready"], status["restartCount"], [*status["state"]]) == (False, 0, ["running"])

    connected(scene)
