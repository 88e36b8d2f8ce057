"""What pods reach: addresses, Services, node ports and names."""

from __future__ import annotations

import pytest

from mooring.api.kinds import PODS, SERVICES
from mooring.client.port import PatchType
from mooring.sandbox.network.services import HEADLESS
from mooring.sandbox.network.slices import SLICES
from tests.sandbox.kubelet.kit import node
from tests.sandbox.network.kit import NETEXEC, READY, Net, connected

HOSTNAME = "curl -s http://{}:{}/hostname"


def test_a_service_takes_turns_among_ready_pods() -> None:
    async def scene(net: Net) -> None:
        await net.serve("a", **NETEXEC, **READY)
        await net.serve("b", **NETEXEC)
        await net.serve("unready", **NETEXEC, readinessProbe={"exec": {"command": ["false"]}})
        service = await net.expose()
        await net.client()
        script = "; echo; ".join([HOSTNAME.format("web", 80)] * 4)
        assert await net.run(script) == (0, "a\nb\na\nb")
        assert (await net.run(HOSTNAME.format(service["spec"]["clusterIP"], 80)))[0] == 0

    connected(scene)


def test_affinity_keeps_a_client_at_its_pod_for_as_long_as_the_service_says() -> None:
    async def scene(net: Net) -> None:
        await net.serve("a")
        await net.serve("b")
        config = {"clientIP": {"timeoutSeconds": 60}}
        await net.expose(sessionAffinity="ClientIP", sessionAffinityConfig=config)
        await net.client()
        script = "; ".join([HOSTNAME.format("web", 80)] * 3)
        assert await net.run(script) == (0, "aaa")
        await net.advance(61)
        assert await net.run(script) == (0, "bbb")

    connected(scene)


def test_connections_fail_as_they_would_on_a_cluster() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("a"))["status"]["podIP"]
        await net.expose("empty", selector={"app": "nothing"})
        await net.client()
        began = net.now()
        assert (await net.run(f"curl {address}:81"))[0] == 7
        assert (await net.run("curl -s empty"))[0] == 7
        assert (await net.run("nc -w 2 -vz 10.64.0.77 80"))[1] == (
            "nc: 10.64.0.77 (10.64.0.77:80): Connection timed out\n"
        )
        assert (await net.run("wget -qO- nothing"))[1] == "wget: bad address 'nothing'\n"
        assert (await net.run("curl --connect-timeout 2 10.64.0.77; echo $?"))[1] == (
            "curl: (28) Connection timed out after 2000 milliseconds\n28\n"
        )
        assert net.now() == began  # the seconds of the command are its own

    connected(scene)


def test_nothing_outside_is_reached() -> None:
    async def scene(net: Net) -> None:
        await net.client()
        await net.expose("outside", type="ExternalName", externalName="example.com", selector=None)
        slice = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "api", "labels": {"kubernetes.io/service-name": "api"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"]}],
            "ports": [{"port": 80}],
        }
        await net.expose("api", selector=None)
        await net.cluster.create(SLICES, slice, "default")
        await net.advance(1)
        for host in ("example.com", "outside", "api", "127.0.0.2", "1.1.1.1", "kubernetes:443"):
            code, text = await net.run(f"curl -sS http://{host}/")
            assert code in (6, 7), (host, text)

    connected(scene)


def test_node_ports_and_host_ports_lead_to_pods() -> None:
    async def scene(net: Net) -> None:
        await net.serve("a")
        ports = [{"containerPort": 8080, "hostPort": 3000}]
        await net.serve("hosted", labels={}, **NETEXEC, ports=ports)
        service = await net.expose(type="NodePort")
        port = service["spec"]["ports"][0]["nodePort"]
        await net.client()
        address = (await net.node())["status"]["addresses"][0]["address"]
        other = (await net.node("node-2"))["status"]["addresses"][0]["address"]
        assert (await net.run(HOSTNAME.format(address, port)))[1] == "a"
        assert (await net.run(HOSTNAME.format(other, port)))[1] == "a"
        assert (await net.run(HOSTNAME.format(address, 3000)))[1] == "hosted"
        assert (await net.run(HOSTNAME.format(other, 3000)))[0] == 7

    connected(scene)


def test_local_policies_keep_connections_on_the_node() -> None:
    async def scene(net: Net) -> None:
        await net.serve("a")
        service = await net.expose(
            type="NodePort", externalTrafficPolicy="Local", internalTrafficPolicy="Local"
        )
        port = service["spec"]["ports"][0]["nodePort"]
        await net.client(nodeName="node-2")
        here, own, other = [
            (await net.node(name))["status"]["addresses"][0]["address"]
            for name in ("node-1", "node-2", "node-3")
        ]
        assert (await net.run(HOSTNAME.format(here, port)))[1] == "a"
        assert (await net.run(HOSTNAME.format(own, port)))[1] == "a"  # not external traffic
        assert (await net.run(f"curl -s -m 1 http://{other}:{port}/"))[0] == 28
        assert (await net.run("curl -s -m 1 http://web/"))[0] == 28

    connected(scene, nodes=[node(f"node-{number}") for number in (1, 2, 3)])


def test_a_local_policy_falls_back_to_terminating_pods_of_the_node() -> None:
    async def scene(net: Net) -> None:
        slow = {"image": "agnhost", "args": ["netexec", "--delay-shutdown=20"]}
        await net.run_pod(
            "here",
            nodeName="node-2",
            containers=[{"name": "main", **slow}],
            metadata={"labels": {"app": "web"}},
        )
        await net.serve("there")
        await net.expose(internalTrafficPolicy="Local")
        await net.client(nodeName="node-2")
        await net.cluster.delete(PODS, "here", "default")
        await net.advance(2)
        assert (await net.run("curl -s -m 1 http://web/hostname"))[1] == "here"
        await net.advance(30)
        assert (await net.run("curl -s -m 1 http://web/hostname"))[0] == 28

    connected(scene)


def test_a_pod_on_a_failed_node_does_not_answer() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("a"))["status"]["podIP"]
        await net.client(nodeName="node-2")
        assert (await net.run(f"curl -s {address}:8080/healthz"))[0] == 0
        await net.annotate("node-1", "true")
        assert (await net.run(f"curl -s -m 3 {address}:8080/healthz"))[0] == 28
        await net.annotate("node-1", None)
        await net.delete("pods", "a")
        await net.advance(40)
        assert (await net.run(f"curl -s -m 3 {address}:8080/healthz"))[0] == 28

    connected(scene)


def test_names_resolve_as_by_the_dns_of_a_cluster() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("a"))["status"]["podIP"]
        ip = (await net.expose())["spec"]["clusterIP"]
        await net.expose("headless", clusterIP="None", ports=[{"name": "http", "port": 8080}])
        await net.expose("alias", type="ExternalName", externalName="web.default.svc.cluster.local")
        await net.client(hostname="me", subdomain="headless", metadata={"labels": {"app": "web"}})
        await net.advance(1)
        full = "default.svc.cluster.local"
        answers = {
            f"dig +short web.{full}": f"{ip}\n",
            "dig +short web": "",
            "dig +short +search web": f"{ip}\n",
            "dig +short +search alias.default": f"web.{full}.\n{ip}\n",
            f"dig +short _http._tcp.headless.{full} SRV": (
                f"0 100 8080 {address.replace('.', '-')}.headless.{full}.\n0 100 8080 me.headless.{full}.\n"
            ),
            f"dig +short -x {ip}": f"web.{full}.\n",
            f"dig +short me.headless.{full}": "10.64.0.2\n",
            "dig +short -x 10.64.0.2": f"me.headless.{full}.\n",
            f"getent hosts {address.replace('.', '-')}.default.pod.cluster.local": (
                f"{address:<15} {address.replace('.', '-')}.default.pod.cluster.local\n"
            ),
            "getent hosts me | head -n 1": f"10.64.0.2       me.headless.{full} me\n",
            "nslookup nothing; echo $?": (
                "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n"
                "** server can't find nothing: NXDOMAIN\n\n1\n"
            ),
        }
        assert {script: (await net.run(script))[1] for script in answers} == answers

    connected(scene)


def test_a_pod_may_have_a_resolver_of_its_own() -> None:
    async def scene(net: Net) -> None:
        await net.expose()
        config = {
            "nameservers": ["10.96.0.10"],
            "searches": ["default.svc.cluster.local"],
            "options": [{"name": "ndots", "value": "2"}],
        }
        await net.client(dnsPolicy="None", dnsConfig=config)
        assert (await net.run("nslookup web"))[0] == 0
        assert (await net.run("cat /etc/resolv.conf"))[1] == (
            "search default.svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:2\n"
        )
        assert await net.run("/agnhost dns-suffix; /agnhost dns-server-list") == (
            0,
            "default.svc.cluster.local10.96.0.10",
        )
        await net.delete("pods", "client")
        await net.advance(40)
        await net.client(dnsPolicy="Default")
        assert (await net.run("nslookup web"))[0] == 1

    connected(scene)


def test_nodes_say_whether_they_have_pods_of_a_load_balancer() -> None:
    async def scene(net: Net) -> None:
        await net.serve("web")
        service = await net.expose(type="LoadBalancer", externalTrafficPolicy="Local")
        port = service["spec"]["healthCheckNodePort"]
        await net.client()
        here, there = [
            (await net.node(name))["status"]["addresses"][0]["address"] for name in ("node-1", "node-2")
        ]
        code = "curl -s -o /dev/null -w '%{{http_code}}' http://{}:{}/{}"
        assert (await net.run(code.format(here, port, "healthz")))[1] == "200"
        assert (await net.run(code.format(there, port, "healthz")))[1] == "503"
        assert (await net.run(code.format(there, 10256, "healthz")))[1] == "200"
        assert (await net.run(code.format(there, 10249, "proxyMode")))[0] == 7  # for the node alone

    connected(scene)


@pytest.mark.parametrize("label", ["service.kubernetes.io/service-proxy-name", HEADLESS])
def test_services_may_be_left_to_other_proxies(label: str) -> None:
    async def scene(net: Net) -> None:
        await net.serve("web")
        address = (await net.expose())["spec"]["clusterIP"]
        await net.client()
        for value, code in ((None, 0), ("other", 28), (None, 0)):
            await net.cluster.patch(
                SERVICES, "web", {"metadata": {"labels": {label: value}}}, "default", kind=PatchType.MERGE
            )
            await net.advance(1)
            assert (await net.run(f"curl -s -m 1 {address}/healthz"))[0] == code

    connected(scene)


def test_slices_of_headless_services_lead_nowhere() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web"))["status"]["podIP"]
        await net.expose(selector=None)
        labels = {"kubernetes.io/service-name": "web"}
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "own", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address]}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }
        await net.cluster.create(SLICES, body, "default")
        await net.client()
        await net.advance(1)
        assert (await net.run("curl -s web/hostname"))[1] == "web"
        patch = {"metadata": {"labels": {HEADLESS: ""}}}
        await net.cluster.patch(SLICES, "own", patch, "default", kind=PatchType.MERGE)
        await net.advance(1)
        assert (await net.run("curl -s web/hostname"))[0] == 7

    connected(scene)


def test_a_sidecar_has_named_ports() -> None:
    async def scene(net: Net) -> None:
        sidecar = {"name": "sidecar", "restartPolicy": "Always", **NETEXEC}
        sidecar["ports"] = [{"name": "api", "containerPort": 8080}]
        main = {"name": "main", "image": "busybox", "command": ["sleep", "1d"]}
        labels = {"metadata": {"labels": {"app": "web"}}}
        await net.run_pod("web", containers=[main], initContainers=[sidecar], **labels)
        await net.advance(2)
        await net.expose(target="api")
        await net.client()
        assert await net.run("curl -s web/hostname") == (0, "web")

    connected(scene)
