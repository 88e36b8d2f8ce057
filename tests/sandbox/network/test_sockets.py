"""The sockets that `ss` shows in a pod and on a node."""

from __future__ import annotations

from tests.sandbox.network.kit import Net, connected

HEADER = "State  Recv-Q Send-Q   Local Address:Port Peer Address:Port Process\n"


def test_sockets_that_listen() -> None:
    async def scene(net: Net) -> None:
        await net.client(hostNetwork=True)
        await net.serve("web")
        await net.expose(type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30080}])
        assert await net.run("ss -tln", "web") == (
            0,
            HEADER + "LISTEN 0      4096                 *:8080               *:*\n",
        )
        assert (await net.run("ss -aunH", "web"))[1].split() == ["UNCONN", "0", "0", "*:8081", "*:*"]
        ports = "ss -ant46H | awk '{print $4}'"
        assert (await net.run(ports))[1].split() == ["*:10256", "127.0.0.1:10249"]
        assert await net.run("! ss -ant46 'sport = :30080' | tail -n +2 | grep LISTEN") == (0, "")
        server = {"name": "main", "image": "agnhost", "args": ["netexec", "--udp-port=-1"]}
        await net.run_pod("host", containers=[server], hostNetwork=True, nodeName="node-1")
        await net.advance(2)
        assert "*:8080" in (await net.run(ports))[1].split()
        assert (await net.run("ss -ant46 'sport = :8080' | tail -n +2 | grep LISTEN"))[0] == 0

    connected(scene)
