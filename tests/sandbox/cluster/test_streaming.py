"""Commands and ports of pods over SPDY/3.1 and WebSockets, as kubectl and other clients use them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.serving.spdy.frames import CANCEL, Data, RstStream
from mooring.testing import make_pod
from mooring.testing.sandbox_cluster import SandboxCluster
from tests.sandbox.apiserver.kubectl import needs_kubectl
from tests.sandbox.cluster.spdy_client import PODS, SPDY, WEBSOCKET, Spdy, Upgraded, refusal

FORWARD = f"{PODS}/web/portforward"
PROTOCOL = "X-Stream-Protocol-Version"
RAW = ("POST", FORWARD, {**SPDY, PROTOCOL: "portforward.k8s.io"})
TUNNEL = ("GET", FORWARD, {**WEBSOCKET, "Sec-WebSocket-Protocol": "SPDY/3.1+portforward.k8s.io"})
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    with SandboxCluster(nodes=1, live=True) as cluster:
        for name, image in (("web", "nginx"), ("db", "redis"), ("other", "example.com/other")):
            cluster.apply(make_pod(name, image=image))
        end = time.monotonic() + PATIENCE
        while not all(pod.ready for pod in cluster.pods()):
            assert time.monotonic() < end
            time.sleep(0.02)
        yield cluster


def play(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await scene

    asyncio.run(bounded())


@pytest.mark.parametrize("how", [RAW, TUNNEL], ids=["spdy", "tunnel"])
def test_ports_are_forwarded(cluster: SandboxCluster, how: tuple[str, str, dict[str, str]]) -> None:
    async def scene() -> None:
        async with Upgraded(cluster.kubeconfig, *how) as connection:
            client = Spdy(connection)
            first, second = client.open_port(1, 80), client.open_port(5, 80)
            client.say(Data(first, GET[:10]), Data(second, LAST), Data(first, GET[10:] + LAST))
            await client.receive_until(first, second, 1, 5)
            assert client.data[first].count(b"HTTP/1.1 200 OK") == 2
            assert client.data[second].endswith(b"</html>\n")
            assert not client.was_reset

    play(scene())


def test_a_port_where_nothing_listens_ends_its_streams_only(cluster: SandboxCluster) -> None:
    async def scene() -> None:
        async with Upgraded(cluster.kubeconfig, *RAW) as connection:
            client = Spdy(connection)
            data = client.open_port(1, 81)
            await client.receive_until(1, data)
            assert re.fullmatch(
                rb"error forwarding port 81 to pod \w{64}, uid : failed to execute portforward in network "
                rb'namespace "\S+": failed to connect to localhost:81 inside namespace "\w{64}", IPv4: dial '
                rb"tcp4 127.0.0.1:81: connect: connection refused IPv6 dial tcp6: address localhost: no "
                rb"suitable address found ",
                client.data[1],
            )
            assert client.was_reset == {data}
            data = client.open_port(5, 80)
            client.say(Data(data, LAST))
            await client.receive_until(data)

    play(scene())


def test_streams_of_no_port_are_refused(cluster: SandboxCluster) -> None:
    async def scene() -> None:
        async with Upgraded(cluster.kubeconfig, *RAW) as connection:
            client = Spdy(connection)
            wrong: list[dict[str, str]] = [
                {"port": "0"},
                {"port": "65536"},
                {"port": "x"},
                {},
                {"port": "80", "streamtype": "x"},
            ]
            for number, headers in enumerate(wrong):
                client.open(2 * number + 1, **{"streamtype": "data", "requestid": "1", **headers})
            await client.receive_until(*range(1, 10, 2))
            assert client.was_reset == {1, 3, 5, 7, 9}

    play(scene())


def test_streams_that_a_client_resets_leave_room_for_others(cluster: SandboxCluster) -> None:
    async def scene() -> None:
        async with Upgraded(cluster.kubeconfig, *RAW) as connection:
            client = Spdy(connection)
            for number in range(1, 1001, 2):
                client.open(number, streamtype="data", port="80", requestid=str(number))
                client.say(RstStream(number, CANCEL))
            for number in range(1001, 1301, 2):  # each waits for the other one of its pair
                client.open(number, streamtype="data", port="80", requestid=str(number))
            await client.receive_until(*range(1201, 1301, 2))
            assert client.was_reset == {*range(1201, 1301, 2)}

    play(scene())


def test_a_program_that_says_nothing_accepts(cluster: SandboxCluster) -> None:
    """A database whose protocol is not known, and a program that is not known at all."""

    async def scene() -> None:
        for name, port in (("db", 6379), ("other", 4711)):
            path = FORWARD.replace("web", name)
            async with Upgraded(cluster.kubeconfig, "POST", path, RAW[2]) as connection:
                client = Spdy(connection)
                data = client.open_port(1, port)
                client.say(Data(data, b"\x00\x01hello\r\n"), Data(data, b"", is_last=True))
                await client.receive_until(1, data)
                assert client.data[data] == client.data[1] == b""

    play(scene())


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", None])
def test_ports_of_a_url_have_channels(cluster: SandboxCluster, protocol: str | None) -> None:
    async def scene() -> None:
        path = f"{FORWARD}?ports=80&ports=81,82"
        how = {**WEBSOCKET, **({"Sec-WebSocket-Protocol": protocol} if protocol else {})}
        async with Upgraded(cluster.kubeconfig, "GET", path, how) as connection:
            connection.send(b"\x00" + LAST)
            messages = []
            while parts := await connection.receive():
                messages += parts
            channels = {n: b"".join(one[1:] for one in messages if one[0] == n) for n in range(6)}
            assert channels[0].startswith(b"\x50\x00HTTP/1.1 200 OK")
            assert channels[1] == b"\x50\x00"
            assert channels[2] == b"\x51\x00"
            assert channels[3].startswith(b"\x51\x00error forwarding port 81")

    play(scene())


@pytest.mark.parametrize(
    ("method", "path", "headers", "code", "message"),
    [
        ("POST", FORWARD, {}, 400, "you must specify a WebSocket upgrade"),
        ("POST", FORWARD, SPDY, 400, "header X-Stream-Protocol-Version does not exist"),
        (
            "POST",
            FORWARD,
            {**SPDY, PROTOCOL: "v4.channel.k8s.io"},
            403,
            "server accepts [portforward.k8s.io]",
        ),
        (
            "GET",
            FORWARD,
            {**WEBSOCKET, "Sec-WebSocket-Protocol": "v4.channel.k8s.io"},
            400,
            "expected one of",
        ),
        ("POST", f"{FORWARD}?ports=0", {}, 400, "unable to parse"),
        ("POST", f"{FORWARD}?ports={'1,' * 50}1", {}, 400, "more than 50 ports"),
    ],
)
def test_requests_that_are_not_upgraded(
    cluster: SandboxCluster, method: str, path: str, headers: dict[str, str], code: int, message: str
) -> None:
    async def scene() -> None:
        refused = await refusal(cluster.kubeconfig, method, path, headers)
        assert refused.code == code
        assert message in json.loads(refused.body)["message"]

    play(scene())


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "channel.k8s.io"])
def test_commands_over_spdy(cluster: SandboxCluster, protocol: str) -> None:
    async def scene() -> None:
        query = "command=sh&command=-c&command=cat;echo%20bad%20>%262;exit%203&stdin=1&stdout=1&stderr=1"
        how = {**SPDY, PROTOCOL: f"v9.channel.k8s.io, {protocol}"}
        async with Upgraded(cluster.kubeconfig, "POST", f"{PODS}/web/exec?{query}", how) as connection:
            assert f"{PROTOCOL}: {protocol}\r\n" in connection.head
            client = Spdy(connection)
            for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")):
                client.open(number, streamtype=name)
            client.say(Data(3, b"typed\n"), Data(3, b"", is_last=True))
            await client.receive_until(1, 5, 7)
            assert (client.data[5], client.data[7]) == (b"typed\n", b"bad\n")
            if protocol == "channel.k8s.io":
                assert b"command terminated with non-zero exit code" in client.data[1]
            else:
                status = json.loads(client.data[1])
                assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
            assert client.is_gone

    play(scene())


def test_a_websocket_needs_the_permission_to_create(cluster: SandboxCluster) -> None:
    """As since v1.35: what is asked for with GET does as much."""
    rule = {"apiGroups": [""], "resources": ["pods/portforward", "pods/exec"], "verbs": ["get"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
    }
    cluster.apply({**role, "rules": [rule]})
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**role, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference}
    cluster.apply(binding)

    async def scene() -> None:
        for path in (FORWARD, f"{PODS}/web/exec?command=true&stdout=1"):
            headers = {**TUNNEL[2], "Impersonate-User": "jane"}
            refused = await refusal(cluster.kubeconfig, "GET", path, headers)
            assert refused.code == 403
            assert 'cannot create resource \\"pods/' in refused.body

    play(scene())


@needs_kubectl
@pytest.mark.parametrize("over", ["true", "false"], ids=["websocket", "spdy"])
def test_kubectl_forwards_ports(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    environment = {
        "KUBECONFIG": cluster.kubeconfig,
        "HOME": str(tmp_path),
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": over,
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": over,
    }
    command = [kubectl, "port-forward", "pod/web", ":80"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            match = re.search(r"127\.0\.0\.1:(\d+) -> 80", forwarding.stdout.readline())
            assert match is not None
            with urllib.request.urlopen(f"http://127.0.0.1:{match[1]}/", timeout=PATIENCE) as page:
                assert b"Welcome to nginx" in page.read()
        finally:
            forwarding.terminate()
    done = subprocess.run(
        [kubectl, "exec", "-i", "web", "--", "cat"],
        env=environment,
        input=b"x" * 100_000,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (0, b"x" * 100_000), done.stderr
