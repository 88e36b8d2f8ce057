"""What containers serve, and what their clients, probes and hooks see of it."""

from __future__ import annotations

import json

import pytest

from mooring.api.kinds import ApiResource
from mooring.client.api_errors import ApiError
from mooring.sandbox.programs.logs import LogOptions, find_container_log
from mooring.sandbox.programs.program import Outcome
from mooring.sandbox.programs.specs import LoggedPod
from tests.sandbox.kubelet.kit import condition
from tests.sandbox.network.kit import NETEXEC, Net, connected

LOGGED = ApiResource("", "v1", "pods", True, LoggedPod)


def test_a_page_can_be_written_in_the_container() -> None:
    async def scene(net: Net) -> None:
        await net.serve("web", image="nginx:1.29")
        await net.expose(target=80)
        await net.client()
        assert "Welcome to nginx!" in (await net.run("wget -qO- http://web"))[1]
        await net.run("echo hello > /usr/share/nginx/html/index.html", "web")
        assert await net.run("wget -qO- http://web") == (0, "hello\n")
        assert (await net.run("wget -O- http://web/none"))[1].endswith(
            "wget: server returned error: HTTP/1.1 404 Not Found\n"
        )

    connected(scene)


def test_netexec_answers() -> None:
    async def scene(net: Net) -> None:
        pod = await net.serve("web")
        address = pod["status"]["podIP"]
        dial = f"dial?host={address}"
        await net.client()
        answers = {
            f"curl -s {address}:8080/echo?msg=hi": "hi",
            f"curl -s -o /dev/null -w '%{{http_code}}' '{address}:8080/echo?code=418'": "418",
            f"curl -s -H 'X-Test: yes' {address}:8080/header?key=X-Test": "yes",
            f"curl -s -L '{address}:8080/redirect?location=/hostname'": "web",
            f"curl -s '{address}:8080/shell?cmd=echo%20out'": '{"output":"out\\n"}',
            f"echo hostname | nc -u -w 1 {address} 8081": "web",
            f"echo hello | nc -w 1 {address} 8080 | head -n 1": "HTTP/1.1 400 Bad Request\r\n",
            f"curl -s '{address}:8080/{dial}&port=8081&protocol=udp&request=echo%20you&tries=2'": (
                '{"responses":["you","you"]}'
            ),
            f"curl -s '{address}:8080/{dial}&port=1&request=x'": (
                f'{{"errors":["dial tcp {address}:1: connect: connection refused"]}}'
            ),
        }
        assert {script: (await net.run(script))[1] for script in answers} == answers
        assert "GET /echo?msg=hi&code=\n" in await net.log("web")

    connected(scene)


def test_servers_that_dial_each_other_without_end_are_stopped() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web"))["status"]["podIP"]
        await net.client()
        inner = "hostname"
        for _ in range(12):
            inner = f"dial%3Ftries=100%26host={address}%26port=8080%26request={inner.replace('%', '%25')}"
        code, text = await net.run(
            f"curl -s '{address}:8080/{inner.replace('%3F', '?').replace('%26', '&')}'"
        )
        assert code == 0
        assert len(text) < 2 * 1024 * 1024

    connected(scene)


def test_a_server_ends_when_it_is_asked_to() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web"))["status"]["podIP"]
        await net.client()
        assert (await net.run(f"curl -s '{address}:8080/exit?code=3&wait=5s'"))[0] == 52
        await net.advance(4)
        assert (await net.status("web"))["containerStatuses"][0]["restartCount"] == 0
        await net.advance(3)
        status = (await net.status("web"))["containerStatuses"][0]
        assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (1, 3)
        assert (await net.run(f"curl -s {address}:8080/hostname"))[1] == "web"

    connected(scene)


def test_probes_by_http_see_what_the_server_answers() -> None:
    async def scene(net: Net) -> None:
        probe = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1}
        ports = [{"name": "http", "containerPort": 80}]
        await net.serve("web", image="nginx", readinessProbe=probe, ports=ports)
        assert condition(await net.get("pods", "web"), "Ready")["status"] == "False"
        await net.run("echo yes > /usr/share/nginx/html/ready", "web")
        await net.advance(5)
        assert condition(await net.get("pods", "web"), "Ready")["status"] == "True"

    connected(scene)


def test_hooks_reach_other_pods() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web"))["status"]["podIP"]
        http = {"httpGet": {"host": address, "port": 8080, "path": "/echo?msg=begin"}}
        end = {"exec": {"command": ["curl", "-s", f"{address}:8080/echo?msg=end"]}}
        await net.serve("one", **NETEXEC, lifecycle={"postStart": http, "preStop": end})
        await net.delete("pods", "one")
        await net.advance(40)
        log = await net.log("web")
        assert "msg=begin" in log
        assert "msg=end" in log
        nobody = {"httpGet": {"host": address, "port": 81, "path": "/"}}
        await net.serve("two", **NETEXEC, lifecycle={"postStart": nobody})
        assert "FailedPostStartHook" in await net.reasons("two")

    connected(scene)


def test_a_script_waits_for_a_service() -> None:
    async def scene(net: Net) -> None:
        script = (
            "until nslookup db > /dev/null; do echo waiting; sleep 2; done; echo found; wget -qO- db:5432"
        )
        wait = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        await net.run_pod("waits", containers=[wait], restartPolicy="Never")
        await net.advance(60)
        assert await net.phase("waits") == "Running"
        assert await net.log("waits") == "waiting\n" * 31
        await net.serve("db", image="example.com/database")
        await net.expose("db", port=5432, target=5432)
        await net.advance(5)
        assert await net.phase("waits") == "Succeeded"
        assert "found\nThis is a placeholder" in await net.log("waits")

    connected(scene)


def test_a_script_gets_each_answer_once() -> None:
    """However often it is evaluated again: requests have effects, and what it has printed stays."""

    async def scene(net: Net) -> None:
        for name in ("a", "b", "c"):
            await net.serve(name)
        await net.expose()
        script = "while true; do wget -qO- web/hostname; echo; sleep 10; done"
        client = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        await net.run_pod("loop", containers=[client])
        await net.advance(1)
        before = await net.log("loop")
        await net.advance(40)
        after = await net.log("loop")
        assert after.startswith(before)
        assert sorted(after.split()) == ["a", "a", "b", "b", "c"]
        served = "".join([await net.log(name) for name in ("a", "b", "c")])
        assert served.count("GET /hostname") == 5

    connected(scene)


def test_an_endless_client_is_bounded() -> None:
    async def scene(net: Net) -> None:
        await net.serve("web")
        script = "while true; do wget -qO- web:8080 > /dev/null; done"
        client = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        await net.run_pod("loop", containers=[client])
        await net.advance(5)
        assert await net.phase("loop") == "Running"

    connected(scene)


def test_a_guestbook_of_three_tiers_works() -> None:
    async def scene(net: Net) -> None:
        for name, args in (
            ("agnhost-primary", ["--http-port", "6379"]),
            ("agnhost-replica", ["--http-port", "6379", "--replicaof", "agnhost-primary"]),
            ("frontend", []),
        ):
            await net.serve(name, labels={"app": name}, image="agnhost", args=["guestbook", *args])
            if name != "frontend":
                await net.expose(name, port=6379, target=6379, selector={"app": name})
        await net.advance(5)
        reply = net.proxy("pods", "frontend:80", "/guestbook?cmd=set&key=messages&value=Hi")
        assert json.loads(reply.body) == {"message": "Updated"}
        reply = net.proxy("pods", "frontend:80", "/guestbook?cmd=get&key=messages")
        assert json.loads(reply.body) == {"data": "Hi"}

    connected(scene)


# ---- pods/proxy and services/proxy


def test_proxies_forward_requests_to_ports_of_porter() -> None:
    async def scene(net: Net) -> None:
        values = {
            "SERVE_PORT_80": '<a href="/page">',
            "SERVE_TLS_PORT_443": "secret",
            "SERVE_UDP_PORT_53": "u",
        }
        env = [{"name": name, "value": value} for name, value in values.items()]
        await net.serve("web", image="agnhost", args=["porter", "--json-response"], env=env)
        await net.expose(ports=[{"name": "plain", "port": 80}, {"name": "tls", "port": 443}])
        for name in ("web:plain", "web:80", "http:web:80"):
            reply = net.proxy("services", name, "/some/path?q=1", "POST")
            assert json.loads(reply.body) == {"Method": "POST", "Body": '<a href="/page">'}
        assert json.loads(net.proxy("services", "https:web:tls").body)["Body"] == "secret"
        assert net.proxy("pods", "web:443").status == 400
        assert net.proxy("pods", "web", method="HEAD").body == b""
        assert json.loads(net.proxy("pods", "web", "?x=1", "OPTIONS").body)["Method"] == "OPTIONS"
        redirected = net.proxy("pods", "web", "?x=1")
        assert redirected.status == 301
        assert redirected.headers["location"] == "/api/v1/namespaces/default/pods/web/proxy/?x=1"

    connected(scene)


@pytest.mark.parametrize(
    ("plural", "name", "code", "message"),
    [
        ("pods", "none", 404, 'pods "none" not found'),
        (
            "pods",
            "web:81",
            503,
            "error trying to reach service: dial tcp 10.64.0.1:81: connect: connection refused",
        ),
        ("pods", "ftp:web:80", 400, 'invalid pod request "ftp:web:80"'),
        ("pods", "web:99999", 503, "error trying to reach service: dial tcp: lookup tcp/99999: unknown port"),
        ("services", "none", 404, 'endpoints "none" not found'),
        ("services", "web:81", 503, 'no service port 81 found for service "web"'),
        ("services", "web:other", 503, 'no endpoints available for service "web:other"'),
    ],
)
def test_proxies_say_why_there_is_no_answer(plural: str, name: str, code: int, message: str) -> None:
    async def scene(net: Net) -> None:
        await net.serve("web")
        await net.expose()
        with pytest.raises(ApiError) as raised:
            net.proxy(plural, name)
        assert (raised.value.code, raised.value.message) == (code, message)

    connected(scene)


def test_links_lead_through_the_proxy() -> None:
    async def scene(net: Net) -> None:
        env = [{"name": "SERVE_PORT_81", "value": "<a href='/x'>"}]
        await net.serve("porter", image="agnhost", args=["porter"], env=env)
        assert b"/porter:81/proxy/x" in net.proxy("pods", "porter:81").body  # its type is not named
        await net.serve("web", image="nginx", ports=[{"containerPort": 80}])
        await net.run('echo \'<A class=x href="/a"><img src="b">\' > /usr/share/nginx/html/index.html', "web")
        prefix = "/api/v1/namespaces/default/pods/web/proxy"
        assert net.proxy("pods", "web").body == f'<A class=x href="{prefix}/a"><img src="b">\n'.encode()
        await net.serve("redirecting")
        reply = net.proxy("pods", "redirecting:8080", "/redirect?location=/hostname")
        assert reply.headers["location"].endswith("/pods/redirecting:8080/proxy/hostname")

    connected(scene)


def test_statuses_name_the_users_of_known_images() -> None:
    async def scene(net: Net) -> None:
        context = {"runAsUser": 1000, "supplementalGroups": [60000]}
        containers = [{"name": name, "image": name} for name in ("agnhost", "other")]
        await net.run_pod("web", containers=containers, securityContext=context)
        await net.advance(2)
        known, unknown = (await net.status("web"))["containerStatuses"]
        assert known["user"] == {
            "linux": {"uid": 1000, "gid": 1000, "supplementalGroups": [1000, 50000, 60000]}
        }
        assert "user" not in unknown
        assert (await net.node())["status"]["features"] == {"supplementalGroupsPolicy": True}

    connected(scene)


def test_the_log_of_a_privileged_container_that_prints_nothing_is_empty() -> None:
    async def scene(net: Net) -> None:
        command = ["sh", "-c", "ip link add d type dummy || true"]
        container = {"name": "main", "image": "busybox", "command": command}
        await net.run_pod("web", containers=[{**container, "securityContext": {"privileged": True}}])
        await net.advance(2)
        pod: LoggedPod = await net.cluster.get(LOGGED, "web", "default")
        assert find_container_log(pod, LogOptions(), net.server.api.runs).output == ()

    connected(scene)


def test_pods_of_one_template_have_their_own_names() -> None:
    async def scene(net: Net) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ss", "uid": "u", "controller": True}
        container = {"name": "main", "image": "busybox", "command": ["sleep", "1d"]}
        for name in ("ss-0", "ss-1"):
            metadata = {"labels": {"controller-revision-hash": "a"}, "ownerReferences": [owner]}
            await net.run_pod(name, containers=[container], metadata=metadata, hostname=name, subdomain="db")
        await net.advance(2)
        for name in ("ss-0", "ss-1"):
            assert (await net.run("hostname", name))[1] == f"{name}\n"

    connected(scene)


def test_a_command_that_is_only_tried_asks_no_server() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web"))["status"]["podIP"]
        await net.client()
        uid = (await net.get("pods", "client"))["metadata"]["uid"]

        def execute(script: str, *, is_dry: bool) -> Outcome | None:
            command = ["sh", "-c", script]
            return net.fake.containers.execute(uid, "main", command, None, is_dry=is_dry)

        exits = f"curl -s {address}:8080/exit?code=3"
        assert execute(exits, is_dry=True) is not None
        assert execute("unheard-of", is_dry=True) is None
        await net.advance(2)
        assert (await net.status("web"))["containerStatuses"][0]["restartCount"] == 0
        assert execute(exits, is_dry=False) is not None
        await net.advance(2)
        assert (await net.status("web"))["containerStatuses"][0]["restartCount"] == 1

    connected(scene)
