"""Targets: what fake nodes and the network between their pods are given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from mooring.api.kinds import NODES, PODS, SERVICES
from mooring.api.quantity import to_milli
from mooring.client.api_errors import ApiError
from mooring.client.cache import Cache
from mooring.client.controller import Context
from mooring.client.counting_recorder import CountingRecorder
from mooring.client.port import PatchType
from mooring.client.virtual_time import VirtualTimeLoop
from mooring.sandbox.apiserver.http.service import ApiService
from mooring.sandbox.apiserver.server import EmbeddedServer
from mooring.sandbox.controllers.endpoint_slices import EndpointSlices
from tests.fuzz.mutation import mutate_json, mutate_text
from tests.fuzz.servers import Failures, Talk, line_of, request
from tests.fuzz.target import target, untimed
from tests.sandbox.kubelet.kit import node, pod
from tests.sandbox.network.kit import NETEXEC, Net

Tree = dict[str, Any]

_RENEW_AFTER = 300
"""Inputs after which there is a new cluster, so that what they wrote does not pile up."""
_TOKEN = "t"
_SERVERS: dict[str, Tree] = {
    "netexec": NETEXEC,
    "nginx": {"image": "nginx"},
    "guestbook": {"image": "agnhost", "args": ["guestbook"]},
    "redis": {"image": "redis"},
    "echo": {"image": "hashicorp/http-echo", "args": ["-text=hi"]},
    "unknown": {"image": "registry.example.com/app:1"},
    "files": {"image": "python", "command": ["python3", "-m", "http.server", "9000"]},
}
_PORTS = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "u", "port": 81, "protocol": "UDP"}]
_SERVICES: dict[str, Tree] = {
    "web": {"selector": {"app": "netexec"}, "ports": _PORTS, "type": "NodePort"},
    "headless": {"selector": {"app": "netexec"}, "ports": _PORTS, "clusterIP": "None"},
    "alias": {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"},
    "loop": {"type": "ExternalName", "externalName": "loop.default.svc.cluster.local"},
    "sticky": {"selector": {"app": "nginx"}, "ports": [{"port": 80}], "sessionAffinity": "ClientIP"},
}
_failures = Failures("mooring", "mooring.serving", "asyncio")


class _Nodes:
    """A cluster of two nodes on a loop of its own, with pods that serve and pods to attach to."""

    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.server: EmbeddedServer
        self.net: Net
        self.talk: Talk
        self._left = 0
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, scene: Callable[[Net], Awaitable[str]]) -> str:
        """Run a scene. Raises what a kubelet logs as its failure."""
        if not self._left:
            with untimed():
                self.loop.run_until_complete(self._renew())
        self._left -= 1
        _failures.errors.clear()
        try:
            outcome = self.loop.run_until_complete(scene(self.net))
            ended = [task for task in self._tasks if task.done()]
            assert not ended, f"{ended[0].get_name()} has ended"
            if _failures.errors:
                raise _failures.errors[0]
        except ApiError as error:
            return f"{error.code} {error.message.rpartition(': ')[2]}"
        except BaseException:
            self._left = 0
            raise
        return outcome

    async def _renew(self) -> None:
        await self._stop()
        self._left = _RENEW_AFTER
        self.server = EmbeddedServer(clock=self.loop.time, seed=1)
        self.server.open()
        self.server.api.token = _TOKEN
        self.talk = Talk(ApiService(self.server.api, {"gitVersion": "v1.36.0"}), loop=self.loop)
        self.net = Net(self.server, self.loop.time, heartbeats=False)
        self.net.begin()
        await self.net.fake.register([node("node-1"), node("node-2")])
        cache = Cache(self.net.cluster)
        recorder = CountingRecorder(self.net.cluster, now=lambda: 0)
        slices = EndpointSlices(Context(self.net.cluster, cache, recorder, self.loop.time))
        cache.follow(PODS)
        self._tasks = [*self.net._tasks, *map(self.loop.create_task, (cache.run(), slices.run()))]
        for name, container in _SERVERS.items():
            container = {"name": "main", **container}
            await self.net.run_pod(name, containers=[container], metadata={"labels": {"app": name}})
        shell = {"name": "main", "image": "busybox", "command": ["sh"], "stdin": True, "tty": True}
        await self.net.run_pod("shell", containers=[shell])
        await self.net.run_pod("reader", containers=[{**shell, "command": ["cat"], "tty": False}])
        await self.net.client()
        for name, spec in _SERVICES.items():
            body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
            await self.net.cluster.create(SERVICES, body, "default")
        await self.net.advance(2)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:
            await self.server.stop()
        self._tasks = []


_nodes = _Nodes()


def _read(data: bytes) -> Tree:
    """Return the document of an input; what is none is an empty one."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


# ---- the network ----------------------------------------------------------------------------------


def _proxied(path: str, method: str = "GET", body: str = "", **headers: str) -> str:
    return json.dumps({"method": method, "path": path, "headers": headers, "body": body})


@target(
    "proxy-requests",
    mutate_json,
    [
        _proxied("pods/netexec:8080/proxy/echo?msg=hi&code=418"),
        _proxied("pods/netexec:8080/proxy/shell?cmd=hostname"),
        _proxied("pods/netexec:8080/proxy/dial?host=web&port=80&request=hostname&tries=3&protocol=http"),
        _proxied("pods/netexec:8080/proxy/redirect?location=/clientip", accept="text/html"),
        _proxied("pods/netexec:8080/proxy/upload", "POST", "a=b", content_type="multipart/form-data"),
        _proxied("services/web:http/proxy/header?key=X-A", "PUT", "body", x_a="b"),
        _proxied("services/http:sticky:80/proxy/", "HEAD"),
        _proxied("services/https:web:80/proxy"),
        _proxied("pods/guestbook/proxy/guestbook?cmd=set&key=messages&value=a"),
        _proxied("pods/nginx/proxy/index.html", "DELETE", range="bytes=0-5"),
        _proxied("pods/echo:5678/proxy/a/../b//c"),
        _proxied("pods/files:9000/proxy/etc/hosts"),
        _proxied("pods/redis:6379/proxy/"),
        _proxied("pods/unknown:1/proxy/", "OPTIONS"),
    ],
    [
        "netexec", "web", "headless", "alias", "loop", ":80", ":http", "https:", "/proxy/", "%2e%2e", "..",
        "//",
        "?", "&", "cmd=", "host=", "port=", "protocol=udp", "tries=1000000", "request=", "location=http://",
        "code=0", "code=99", "code=101", "code=999", "/exit?code=1", "/delay", "timeout=", "content-type",
        "transfer-encoding", "chunked", "application/x-www-form-urlencoded", "\r\n", "HEAD", "PATCH", "host",
    ],
)  # fmt: skip
def proxy(data: bytes) -> object:
    """Send a request to a container through the API server."""
    tree = _read(data)
    method, path = line_of(tree.get("method")), line_of(tree.get("path"))
    if not method.isalpha() or not path:
        return "no request"
    given = tree.get("headers")
    headers = (
        {line_of(name): line_of(value) for name, value in given.items()} if isinstance(given, dict) else {}
    )
    headers = {name: value for name, value in headers.items() if name.replace("_", "").isalnum()}
    body = tree.get("body")
    sent = (body if isinstance(body, str) else json.dumps(body)).encode(errors="replace")
    headers |= {"authorization": f"Bearer {_TOKEN}"}

    async def scene(net: Net) -> str:
        full = f"/api/v1/namespaces/default/{path}"
        head, _, answer = (await _nodes.talk.exchange(request(method, full, sent, **headers))).partition(
            b"\r\n\r\n"
        )
        return f"{head[9:12].decode()} {answer[:60].decode(errors='replace')}"

    return _nodes.run(scene)


@target(
    "names",
    mutate_text,
    [
        "A web.default.svc.cluster.local",
        "SRV _http._tcp.web.default.svc.cluster.local.",
        "SRV _u._udp.headless.default.svc.cluster.local",
        "PTR 1.0.96.10.in-addr.arpa",
        "A 10-244-0-3.default.pod.cluster.local",
        "A alias.default.svc.cluster.local",
        "CNAME loop.default.svc.cluster.local",
        "AAAA 10-244-0-3.headless.default.svc.cluster.local",
    ],
    [".", "..", "_", "-", "SRV", "PTR", "A", "svc", "pod", "cluster.local", "in-addr.arpa", "999", "loop"],
)  # fmt: skip
def resolve(data: bytes) -> object:
    """Ask the cluster's DNS server, and a program that does."""
    kind, _, name = data.decode(errors="replace").partition(" ")

    async def scene(net: Net) -> str:
        network = net.fake.network
        records = network.find_records(name, kind)
        assert len(records) < 100
        return f"{kind} {' '.join(record.data for record in records)}"

    return _nodes.run(scene)


@target(
    "network-programs",
    mutate_text,
    [
        "nslookup web; nslookup -type=srv _http._tcp.web.default.svc.cluster.local",
        "wget -qO- --timeout=2 http://web/hostname || echo none",
        "curl -s -o /dev/null -w '%{http_code}\\n' -H 'A: b' -d x=y -X PUT http://web:80/echo?msg=hi",
        "curl -sL --max-time 3 --retry 2 --resolve a:80:10.96.0.1 http://alias/redirect?location=/clientip",
        "echo hostname | nc -u -w 1 headless 8081",
        "nc -zv -w 2 web 80 && nc -w 1 10.96.0.10 53; hostname -i",
        "while true; do curl -s http://web/hostname; sleep 5; done",
        "for i in 1 2 3; do wget -q http://sticky -O /tmp/$i; done; cat /tmp/1 /etc/resolv.conf",
    ],
    [
        "web", "headless", "alias", "loop", "sticky", "10.96.0.10", "127.0.0.1", "localhost", ":80", ":0",
        ":99999", "http://", "https://", "[::1]", "-w", "-X", "-k", "-L", "-d @-", "-F a=@/etc/hosts",
        "-T", "-T-",
        "--data-urlencode", "%{json}", "-type=", "--post-data=", "-c 0", "-w 0", "-z", "-u", "|", "&&", "$(",
        ")", "/redirect?location=", "/dial?host=web&port=80&tries=99", "/shell?cmd=", "-u a:b", "-I", "-i",
        "-v",
    ],
)  # fmt: skip
def ask_from_container(data: bytes) -> object:
    """Run a script in a container that can reach others."""
    script = data.decode(errors="replace")

    async def scene(net: Net) -> str:
        uid = (await net.get("pods", "client"))["metadata"]["uid"]
        outcome = net.fake.containers.execute(uid, "main", ["sh", "-c", script], None, is_dry=False)
        if outcome is None:
            return "unknown"
        output = "".join(text for _, text in outcome.output)
        assert len(output) < 10_000_000
        return f"code{chr(97 + outcome.exit_code % 26)} {output[-60:]}"

    return _nodes.run(scene)


# ---- exec and attach ------------------------------------------------------------------------------

_BINARY, _TEXT, _PING, _CLOSE = "binary", "text", "ping", "close"


def _session(path: str, query: str, *frames: Any, protocol: str = "v5.channel.k8s.io") -> str:
    return json.dumps({"path": path, "query": query, "protocol": protocol, "frames": frames})


def _key(text: str) -> list[str]:
    return [_BINARY, f"\x00{text}"]


_SIZE = [_BINARY, '\x04{"Width":80,"Height":24}']


@target(
    "exec-frames",
    mutate_json,
    [
        _session(
            "client/exec", "command=sh&stdin=1&stdout=1&tty=1", _SIZE, _key("echo a\r"), _key("exit 3\r")
        ),
        _session("client/exec", "command=sh&stdin=1&stdout=1", _key("echo a\n"), _key("exit 2\n")),
        _session("client/exec", "command=cat&stdin=1&stdout=1&stderr=1", _key("x"), [_BINARY, "\xff\x00"]),
        _session("client/exec", "command=sleep&command=9&stdout=1&tty=1&stdin=1", _key("\x03"), [_PING, "a"]),
        _session("client/exec", "command=psql&stdout=1", protocol="channel.k8s.io"),
        _session("shell/attach", "stdin=1&stdout=1&tty=1", _SIZE, _key("ls\r"), _key("\x04")),
        _session("reader/attach", "stdin=1&stdout=1", _key("line\n"), [_BINARY, "\xff\x00"]),
        _session("netexec/attach", "stdout=1&container=main", [_TEXT, "a"], [_CLOSE, ""]),
        _session("reader/attach", "stdin=1", {"binary": "\x00part", "more": True}, _key("end"), "\x82\xff"),
    ],
    [
        "command=", "&", "stdin=1", "stdout=1", "stderr=1", "tty=1", "container=main", "container=none", "sh",
        "binary", "text", "ping", "close", "\x00", "\x01", "\x02", "\x03", "\x04", "\xff", "\xff\x00",
        "\r", "\n",
        "exit\n", "exit 1\r", "\x1b[A", "\x7f", '\x04{"Width":-1}', "v4.channel.k8s.io", "channel.k8s.io",
        "\x82\x7e", "\x88\x80", "sleep 100000\r", "yes\r", "echo $(",
    ],
)  # fmt: skip
def talk_to_container(data: bytes) -> object:
    """Open a stream to a container and send frames. What serves it must end when the client leaves."""
    tree = _read(data)
    path, query = line_of(tree.get("path")), line_of(tree.get("query"))
    handshake = request(
        "GET", f"/api/v1/namespaces/default/pods/{quote(path)}?{query}",
        authorization=f"Bearer {_TOKEN}", connection="Upgrade", upgrade="websocket",
        sec_websocket_version="13", sec_websocket_key="MDEyMzQ1Njc4OWFiY2RlZg==",
        sec_websocket_protocol=line_of(tree.get("protocol")),
    )  # fmt: skip
    frames = tree.get("frames")
    encoder = Frames(ConnectionType.CLIENT)
    pieces = [
        handshake,
        *(_frame(encoder, one) for one in (frames if isinstance(frames, list) else [])[:200]),
    ]

    async def scene(net: Net) -> str:
        written = await _nodes.talk.exchange(*pieces, between=0.3, pause=0.2)
        assert not _nodes.talk.unfinished
        head, _, answer = written.partition(b"\r\n\r\n")
        return f"{head[9:12].decode()} {answer[-80:].decode(errors='replace')}"

    return _nodes.run(scene)


def _frame(encoder: Frames, tree: Any) -> bytes:
    """Return the bytes of a frame; text stands for itself."""
    match tree:
        case ["binary", str(text)]:
            return encoder.send(BytesMessage(_bytes(text)))
        case {"binary": str(text)}:
            return encoder.send(BytesMessage(_bytes(text), message_finished=not tree.get("more")))
        case ["text", str(text)]:
            message = TextMessage(text.encode(errors="replace").decode())
            return Frames(ConnectionType.CLIENT).send(message)  # also where a message is not finished
        case ["ping", str(text)]:
            return encoder.send(Ping(_bytes(text)[:125]))
        case ["close", _]:
            return Frames(ConnectionType.CLIENT).send(CloseConnection(1000))
    return _bytes(tree if isinstance(tree, str) else json.dumps(tree))


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


# ---- kubelets -------------------------------------------------------------------------------------

_AMOUNTS = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}
_MAIN = {"name": "main", "image": "app", "resources": _AMOUNTS}
_SIDECAR = {"name": "side", "image": "app", "restartPolicy": "Always", "resources": _AMOUNTS}
_PROBE = {"periodSeconds": 1, "failureThreshold": 2}


def _lived(patch: Tree | None = None, resize: Tree | None = None, **spec: Any) -> str:
    annotations = spec.pop("annotations", {})
    spec = {"containers": [_MAIN], **spec}
    return json.dumps({"annotations": annotations, "spec": spec, "patch": patch, "resize": resize})


def _resized(**resources: Any) -> Tree:
    return {"spec": {"containers": [{"name": "main", "resources": resources}]}}


@target(
    "kubelet-pods",
    mutate_json,
    [
        _lived(annotations={"mooring/run-time": "3s", "mooring/exit-code": "1", "mooring/start-delay": "1s"}),
        _lived(
            {"metadata": {"annotations": {"mooring/run-time": "1s"}}}, annotations={"mooring/stop-time": "1m"}
        ),
        _lived(resize=_resized(requests={"cpu": "2"}, limits={"cpu": "2"})),
        _lived(resize=_resized(requests={"cpu": "900"}, limits={"cpu": "900"})),
        _lived(resize=_resized(limits={"memory": "65Mi"})),
        _lived(
            containers=[{
                **_MAIN, "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}],
            resize=_resized(requests={"memory": "100Mi"}),
        ),
        _lived(initContainers=[_SIDECAR, {"name": "init", "image": "busybox", "command": ["true"]}]),
        _lived(containers=[{
            **_MAIN,
            "command": ["sh", "-c", "touch /tmp/x; sleep 3; rm /tmp/x; sleep 600"],
            "livenessProbe": {**_PROBE, "exec": {"command": ["cat", "/tmp/x"]}},
            "readinessProbe": {**_PROBE, "httpGet": {"path": "/", "port": 80}},
            "startupProbe": {**_PROBE, "tcpSocket": {"port": "http"}},
            "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080}],
            "lifecycle": {"preStop": {"sleep": {"seconds": 2}}, "postStart": {"exec": {"command": ["true"]}}},
        }]),
        _lived(activeDeadlineSeconds=3, containers=[{**_MAIN, "image": "invalid.registry/x:404"}]),
        _lived(restartPolicy="OnFailure", containers=[{**_MAIN, "command": ["sh", "-c", "exit 1"]}]),
        _lived(
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "d", "downwardAPI": {"items": [
                {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}]}}],
            containers=[{
                **_MAIN,
                "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "d", "mountPath": "/d"}]}],
        ),
        _lived(
            hostNetwork=True, terminationGracePeriodSeconds=1,
            dnsPolicy="None", dnsConfig={"nameservers": ["10.96.0.10"]},
            patch={"spec": {"containers": [{"name": "main", "image": "app:2"}]}},
        ),
    ],
    [
        "mooring/run-time", "mooring/exit-code", "mooring/start-delay", "mooring/stop-time", "0s", "-1s",
        "1e9h",
        "requests", "limits", "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "0", "1n", "8E",
        "resizePolicy", "NotRequired", "RestartContainer", "restartPolicy", "Always", "restartPolicyRules",
        "initContainers", "exec", "httpGet", "tcpSocket", "grpc", "port", "periodSeconds",
        "initialDelaySeconds",
        "terminationGracePeriodSeconds", "preStop", "postStart", "sleep", "envFrom", "valueFrom", "fieldRef",
        "fieldPath", "status.podIP", "metadata.annotations['a']", "resources", "subPath", "projected",
        "hostname",
        "setHostnameAsFQDN", "subdomain", "os", "windows", "securityContext", "runAsUser", "stopSignal",
    ],
)  # fmt: skip
def live_as_pod(data: bytes) -> object:
    """Have a pod run, change and resize it, and delete it."""
    tree = _read(data)
    body = pod("p", metadata={"annotations": tree.get("annotations")})
    spec = tree.get("spec")
    body["spec"] = {**spec, "nodeName": "node-1"} if isinstance(spec, dict) else body["spec"]

    async def scene(net: Net) -> str:
        await net.cluster.create(PODS, body, "default")
        outcomes = []
        try:
            await net.advance(3)
            for what, subresource in (("patch", ""), ("resize", "resize")):
                if isinstance(tree.get(what), dict):
                    outcomes.append(await _changed(net, tree[what], subresource))
                    await net.advance(2)
            await _check_room(net)
            await net.advance(40)
            status = (await net.get("pods", "p"))["status"]
            outcomes += [status.get("phase", ""), status.get("reason", "")]
            await net.cluster.delete(PODS, "p", "default")
            await net.advance(5)
        finally:
            if "p" in await net.names():
                await net.cluster.delete(PODS, "p", "default", grace_period_seconds=0)
            await net.advance(1)
        return " ".join(outcomes)

    return _nodes.run(scene)


async def _changed(net: Net, patch: Tree, subresource: str) -> str:
    try:
        await net.cluster.patch(
            PODS, "p", patch, "default", subresource=subresource, kind=PatchType.STRATEGIC
        )
    except ApiError as error:
        return f"{error.code}"
    return f"changed {subresource}"


async def _check_room(net: Net) -> None:
    """What is allocated to containers fits on their node."""
    total = 0
    for tree in await net.all("pods"):
        for one in (
            tree["status"].get("containerStatuses", ()) if tree["spec"]["nodeName"] == "node-1" else ()
        ):
            total += to_milli(one.get("allocatedResources", {}).get("cpu", "0"))
    assert total <= to_milli((await net.node())["status"]["allocatable"]["cpu"])


@target(
    "node-annotations",
    mutate_json,
    [
        json.dumps({"mooring/devices": [{"driver": "a.example.com", "name": "gpu", "count": 2}]}),
        json.dumps({"mooring/devices": [{
            "driver": "a.example.com", "name": "gpu", "count": 4, "allowMultipleAllocations": True,
            "attributes": {"model": "A", "numa": [0, 1], "firmware": {"version": "1.2.3"}},
            "capacity": {"memory": "80Gi"}}]}),
        json.dumps({
            "mooring/devices": [{"driver": "a.example.com", "name": "gpu"}], "mooring/failed-devices": "gpu",
            "mooring/device-taints": {"gpu": [{"key": "a", "value": "b", "effect": "NoExecute"}]}}),
        json.dumps({"mooring/failed": "true"}),
    ],
    [
        "mooring/devices", "mooring/failed-devices", "mooring/device-taints", "mooring/failed", "driver",
        "name",
        "count", "attributes", "capacity", "memory", "version", "1.2", "allowMultipleAllocations", "key",
        "effect",
        "NoSchedule", "NoExecute", "value", "gpu-0", ",",
    ],
)  # fmt: skip
def annotate_node(data: bytes) -> object:
    """Set the annotations of a node that its kubelet reads."""
    annotations = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in _read(data).items()
    }

    async def scene(net: Net) -> str:
        try:
            await net.cluster.patch(NODES, "node-2", {"metadata": {"annotations": annotations}})
        except ApiError as error:
            return str(error.code)
        try:
            await net.advance(2)
            slices = await net.all("resourceslices")
            return " ".join(json.dumps(one["spec"].get("devices")) for one in slices).replace('"', " ")
        finally:
            await net.cluster.patch(
                NODES, "node-2", {"metadata": {"annotations": dict.fromkeys(annotations)}}
            )
            await net.advance(2)

    return _nodes.run(scene)
