"""NetworkPolicies."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.sandbox.network.policies import NETWORK_POLICIES
from tests.sandbox.network.kit import Net, Tree, connected

SERVER: Tree = {
    "image": "agnhost",
    "args": ["netexec", "--http-port=80", "--udp-port=81"],
    "ports": [{"name": "http", "containerPort": 80}],
}
ALL: Tree = {"podSelector": {}}
TO_PORT = "/agnhost connect --timeout=3s --protocol={} {}:{}"


async def apply(net: Net, **spec: Any) -> None:
    """Create a policy for the server, or change it."""
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "policy"},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, **spec},
    }
    await net.cluster.create(NETWORK_POLICIES, body, "default")
    await net.advance(1)


def peers(*allowed: Tree, **rule: Any) -> Tree:
    return {"ingress": [{"from": list(allowed), **rule}]}


def ports(*allowed: Tree) -> Tree:
    return {"ingress": [{"ports": list(allowed)}]}


CLIENT: Tree = {"podSelector": {"matchLabels": {"role": "client"}}}
OTHER: Tree = {"podSelector": {"matchLabels": {"role": "other"}}}
HOME: Tree = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
AWAY: Tree = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "away"}}}
SPACE: Tree = {"ipBlock": {"cidr": "10.0.0.0/8"}}
CASES = [
    ({"policyTypes": ["Ingress"]}, False, False),
    (peers(), True, True),
    (peers(ALL), True, True),
    (peers(CLIENT), True, True),
    (peers(OTHER), False, False),
    (peers(OTHER, CLIENT), True, True),
    (peers(HOME), True, True),
    (peers(AWAY), False, False),
    (peers({**HOME, **CLIENT}), True, True),
    (peers({**HOME, **OTHER}), False, False),
    (peers({**AWAY, **CLIENT}), False, False),
    (peers(SPACE), True, True),
    (peers({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/9"]}}), False, False),
    (ports({"port": 80}), True, False),
    (ports({"port": "http"}), True, False),
    (ports({"port": "https"}), False, False),
    (ports({"protocol": "UDP"}), False, True),
    (ports({"protocol": "UDP", "port": 80}), False, False),
    (ports({"port": 70, "endPort": 90}), True, False),
    (ports({"port": 81, "endPort": 90}), False, False),
    (peers(OTHER, ports=[{"port": 80}]), False, False),
    ({"policyTypes": ["Egress"]}, True, True),
]


@pytest.mark.parametrize(("spec", "tcp", "udp"), CASES)
def test_what_may_connect_to_a_pod(spec: Tree, tcp: bool, udp: bool) -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web", **SERVER))["status"]["podIP"]
        await net.client(nodeName="node-2", metadata={"labels": {"role": "client"}})
        await apply(net, **spec)
        results = [
            await net.run(TO_PORT.format(*each)) for each in (("tcp", address, 80), ("udp", address, 81))
        ]
        assert [code == 0 for code, _ in results] == [tcp, udp]
        assert all(text == ("" if code == 0 else "TIMEOUT\n") for code, text in results)

    connected(scene)


@pytest.mark.parametrize(
    ("egress", "allowed"),
    [
        ([], False),
        ([{}], True),
        ([{"to": [{"podSelector": {"matchLabels": {"app": "web"}}}]}], True),
        ([{"to": [{"podSelector": {"matchLabels": {"app": "db"}}}]}], False),
        ([{"to": [SPACE], "ports": [{"port": 80}]}], True),
        ([{"to": [SPACE], "ports": [{"port": 8080}]}], False),
        ([{"ports": [{"port": "http"}]}], True),
    ],
)
def test_what_a_pod_may_connect_to(egress: list[Tree], allowed: bool) -> None:
    """Policies see the pod behind a Service, and the port that it listens at."""

    async def scene(net: Net) -> None:
        await net.serve("web", **SERVER)
        await net.expose(port=8080, target=80)
        await net.client(metadata={"labels": {"role": "client"}})
        await apply(net, podSelector=CLIENT["podSelector"], policyTypes=["Egress"], egress=egress)
        assert (await net.run("curl -s -m 1 web:8080/hostname"))[0] == (0 if allowed else 28)

    connected(scene)


def test_pods_reach_themselves_and_nodes_reach_their_pods() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web", **SERVER))["status"]["podIP"]
        node = (await net.get("pods", "web"))["spec"]["nodeName"]
        await apply(net, policyTypes=["Ingress", "Egress"])
        other = "node-2" if node == "node-1" else "node-1"
        assert (await net.run(TO_PORT.format("tcp", address, 80), "web"))[0] == 0
        for name, where, code in (("here", node, 0), ("there", other, 1)):
            container = {"name": "main", "image": "busybox", "command": ["sleep", "1d"]}
            await net.run_pod(name, containers=[container], hostNetwork=True, nodeName=where)
            await net.advance(1)
            assert (await net.run(TO_PORT.format("tcp", address, 80), name))[0] == code

    connected(scene)


def test_agnhost_says_why_it_cannot_connect() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web", **SERVER))["status"]["podIP"]
        await net.client()
        assert await net.run(TO_PORT.format("tcp", address, 90)) == (1, "REFUSED\n")
        assert await net.run(TO_PORT.format("tcp", "none", 80)) == (1, "DNS: lookup none: no such host\n")

    connected(scene)
