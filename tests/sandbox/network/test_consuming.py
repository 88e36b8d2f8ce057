"""Containers that use what clients ask them to, as `resource-consumer` does."""

from __future__ import annotations

from mooring.api.kinds import PODS
from mooring.api.objects import Pod
from mooring.sandbox.programs.usage import container_usage
from tests.sandbox.network.kit import Net, Tree, connected

RESOURCES = {"requests": {"cpu": "500m", "memory": "500Mi"}, "limits": {"cpu": "500m", "memory": "500Mi"}}
CONSUMER: Tree = {"image": "registry.k8s.io/e2e-test-images/resource-consumer:1.13", "resources": RESOURCES}
CONTROLLER: Tree = {
    "image": "agnhost",
    "args": ["resource-consumer-controller", "--consumer-service-name=web", "--consumer-port=80"],
}


async def usage(net: Net, name: str) -> tuple[int, int]:
    """Return millicores and MiB."""
    pod: Pod = await net.cluster.get(PODS, name, "default")
    [used] = container_usage(pod, net.server.api.loads, net.now()).values()
    return used["cpu"] // 10**6, used["memory"] // (2**20 * 10**9)


def test_a_controller_divides_a_load_among_the_pods_of_a_service() -> None:
    async def scene(net: Net) -> None:
        await net.serve("a", **CONSUMER)
        await net.serve("b", **CONSUMER)
        await net.expose()
        await net.serve("controller", labels={}, **CONTROLLER)
        address = (await net.get("pods", "controller"))["status"]["podIP"]
        await net.client()
        assert await usage(net, "a") == (0, 0)

        for path in (
            "ConsumeCPU?millicores=250&requestSizeMillicores=50&durationSec=30",
            "ConsumeMem?megabytes=300&requestSizeMegabytes=100&durationSec=30",
        ):
            code, said = await net.run(f"curl -s -X POST '{address}:8080/{path}'")
            assert (code, "Consumed" in said, "Failed" in said) == (0, True, False), said
        memory = [(await usage(net, name))[1] for name in ("a", "b")]
        assert sorted(memory) == [100, 200]
        await net.advance(20)
        cpu = [(await usage(net, name))[0] for name in ("a", "b")]
        assert sorted(cpu) == [100, 150]
        await net.advance(18)  # the load has ended 8 s ago: CPU is a mean of 15 s
        assert 0 < sum([(await usage(net, name))[0] for name in ("a", "b")]) < 250
        await net.advance(15)
        assert await usage(net, "a") == await usage(net, "b") == (0, 0)

    connected(scene)


def test_a_container_uses_no_more_than_its_limit() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web", **CONSUMER))["status"]["podIP"]
        await net.client()
        consume = f"curl -s -X POST '{address}:8080/ConsumeCPU?millicores=900&durationSec=60'"
        assert await net.run(consume) == (0, "ConsumeCPU\n900 millicores\n60 durationSec\n")
        await net.advance(15)
        assert await usage(net, "web") == (500, 0)
        assert (await net.run(f"curl -s -X POST '{address}:8080/ConsumeCPU?millicores=x&durationSec=60'"))[
            1
        ] == "incorrect function argument\n"

    connected(scene)
