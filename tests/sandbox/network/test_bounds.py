"""What one client of the network may cause, however much is behind a Service and whatever servers do."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.answering import answer_request
from mooring.sandbox.network.backends import MOST_KEPT, Backends, Endpoint, KeptBackends
from mooring.sandbox.network.messages import LARGEST, Query, Reply
from mooring.sandbox.network.names import DnsRecord
from mooring.sandbox.network.policies import NETWORK_POLICIES
from mooring.sandbox.network.slices import SLICES
from mooring.sandbox.programs.errors import ForeverError
from mooring.sandbox.programs.wire import Answers
from mooring.sandbox.programs.work import MOST_WORK, Work
from tests.calls import count_calls
from tests.sandbox.network.kit import Net, connected

Tree = dict[str, Any]
FORM = {"content-type": "application/x-www-form-urlencoded"}
BUSY = "i=0; while [ $i -lt 900 ]; do i=$((i+1)); done"


def endpoints(count: int, **fields: Any) -> list[Endpoint]:
    return [Endpoint(f"10.1.{i // 250}.{i % 250}", 80, {"n": i, **fields}) for i in range(count)]


async def fill(net: Net, service: str, slices: int) -> None:
    """Put a thousand endpoints in each EndpointSlice of a Service."""
    for number in range(slices):
        many = [{"addresses": [one.address], "hostname": f"h{i}"} for i, one in enumerate(endpoints(1000))]
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{service}-{number}",
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": many,
            "ports": [{"name": "", "port": 80}],
        }
        await net.cluster.create(SLICES, body, "default")
    await net.advance(1)


@pytest.mark.parametrize(
    "command", ["nc -z many 80", "getent hosts x.head", "dig -x 10.1.0.1 +short", "wget -qT1 many"]
)
def test_a_script_may_not_search_through_thousands_of_endpoints_again_and_again(command: str) -> None:
    async def scene(net: Net) -> None:
        await net.client()
        await net.expose("many", selector=None)
        await net.expose("head", selector=None, clusterIP="None")
        for name in ("many", "head"):
            await fill(net, name, 2)
        uid = (await net.get("pods", "client"))["metadata"]["uid"]
        script = f"for i in $(seq 1900); do {command} > /dev/null; done"
        assert net.fake.containers.execute(uid, "main", ["sh", "-c", script], None, is_dry=False) is None
        code = (await net.run(command))[0]
        assert code in (0, 1, 2)

    connected(scene)


def test_what_is_behind_a_service_is_prepared_once_for_every_change() -> None:
    kept, searches = KeptBackends(), list[int]()

    def find() -> list[Endpoint]:
        searches.append(1)
        return endpoints(100)

    for _ in range(3):
        assert kept.get("a/b", ("", "TCP", 80), find, None).size == 100
    assert len(searches) == 1
    kept.forget("a/b")
    kept.get("a/b", ("", "TCP", 80), find, None)
    assert len(searches) == 2


def test_what_is_kept_of_services_is_bounded_and_preparing_it_costs_work() -> None:
    kept, many, searches = KeptBackends(), endpoints(MOST_WORK // 10), list[int]()

    def find() -> list[Endpoint]:
        searches.append(1)
        return many

    def get(number: int, work: Work) -> None:
        kept.get(f"a/{number}", ("", "TCP", 80), find, work)

    most = MOST_KEPT // len(many)
    for number in range(most + 1):
        get(number, Work())
    work = Work()
    get(most, work)
    assert len(searches) == most + 1
    assert work.done == 0
    get(0, work)
    get(1, work)
    with pytest.raises(ForeverError):
        get(2, work)


def test_clients_are_sent_to_the_endpoints_that_hints_name() -> None:
    hints = {"forNodes": [{"name": "n1"}], "forZones": [{"name": "z1"}, {"name": "z1"}]}
    near, far = endpoints(2, hints=hints), endpoints(1, hints={"forNodes": [{"name": "n2"}]})
    backends = Backends([*near, *far])
    assert backends.near("n1", "z1").endpoints == near
    assert backends.near("n3", "z1").endpoints == [*near, *far], "not all have hints for zones"
    assert Backends(near).near("n3", "z1").endpoints == near


def test_servers_work_at_the_expense_of_their_client() -> None:
    async def scene(net: Net) -> None:
        address = (await net.serve("web"))["status"]["podIP"]
        busy = quote(f"shell?cmd={quote(BUSY)}", safe="")
        target = f"/dial?host={address}&port=8080&request={busy}"
        assert net.proxy("pods", "web:8080", target).status == 200
        with pytest.raises(ApiError, match="i/o timeout"):
            net.proxy("pods", "web:8080", f"{target}&tries=100")

    connected(scene)


def test_others_have_their_turn_between_servers_that_clients_reach_by_proxy() -> None:
    async def scene(net: Net) -> None:
        await net.serve("web")
        answering = asyncio.gather(*(answer_request(net.proxied("pods", "web:8080")) for _ in range(50)))
        turns = 0
        while not answering.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 50

    connected(scene)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ("a", Reply(body=bytes(LARGEST))),
        ("a", [DnsRecord("a", "A", "10.0.0.1")] * 6_000),
        ("a" * LARGEST, Reply()),
    ],
)
def test_answers_that_a_script_gets_again_are_bounded(sent: str, answer: object) -> None:
    answers = Answers()
    for number in range(5):
        assert answers.get((0.0, sent, number % 4), lambda: answer) is answer
    with pytest.raises(ForeverError):
        answers.get((0.0, sent, 4), lambda: answer)
    assert answers.get((0.0, sent, 0), lambda: None) is answer


def test_policies_of_thousands_of_terms_cost_their_namespace_the_network() -> None:
    terms = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(7000)]
    spec = {"podSelector": {"matchExpressions": terms}, "ingress": [{}]}

    async def scene(net: Net) -> None:
        await net.serve("web")
        await net.client()
        assert net.proxy("pods", "web:8080", "/hostname").body == b"web"
        body = {"metadata": {"name": "large"}, "spec": spec}
        await net.cluster.create(NETWORK_POLICIES, body, "default")
        await net.advance(1)

        def ask() -> None:
            with pytest.raises(ApiError, match="i/o timeout"):
                net.proxy("pods", "web:8080", "/hostname")

        assert count_calls(ask) < 5000
        address = (await net.get("pods", "web"))["status"]["podIP"]
        uid = (await net.get("pods", "client"))["metadata"]["uid"]
        command = ["nc", "-z", address, "8080"]
        assert net.fake.containers.execute(uid, "main", command, None, is_dry=False) is None
        await net.cluster.delete(NETWORK_POLICIES, "large", "default")
        await net.advance(1)
        assert net.proxy("pods", "web:8080", "/hostname").body == b"web"

    connected(scene)


def test_forms_are_bounded() -> None:
    async def scene(net: Net) -> None:
        await net.serve("web")
        reply = net.proxy("pods", "web:8080", "/echo", "POST", headers=FORM, body=b"msg=hello&msg=b")
        assert reply.body == b"hello"
        reply = net.proxy("pods", "web:8080", "/echo", "POST", headers=FORM, body=b"a" * 200_000)
        assert reply.status == 413

    connected(scene)
    assert Query(body=b"a&" * 2000 + b"b=1", headers=FORM).param("b") == ""
