"""Functions as handlers: what they are shown, what their answers mean, and what is said of wrong ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring import extender as ext
from mooring.api.objects import Node, Pod
from mooring.extender.serving.handlers import HandlerError, handlers_of
from mooring.extender.serving.loading import LoadingError, load_handlers
from mooring.framework import unresolvable, unschedulable
from tests.extender.serving_kit import extender, node, pod

BLUE = node("blue", colour="blue")
RED = node("red", colour="red")
GREY = node("grey")


def refused(result: Mapping[str, Any]) -> dict[str, str]:
    assert result["Error"] == ""
    return {**result["FailedNodes"], **result["FailedAndUnresolvableNodes"]}


def passed(result: Mapping[str, Any]) -> list[str]:
    assert result["Error"] == "", result
    assert result["NodeNames"] is None
    return [each["metadata"]["name"] for each in result["Nodes"]["items"]]


# ---- filter


def test_one_node_at_a_time() -> None:
    @ext.filter
    def coloured(pod: Pod, node: Node) -> Any:
        colour = node.metadata.labels.get("colour")
        return {"blue": None, "red": "node(s) were red"}.get(colour or "", False)

    with extender(coloured) as it:
        result = it.filter(pod(), BLUE, RED, GREY)
    assert passed(result) == ["blue"]
    assert result["Nodes"]["items"] == [BLUE]  # whole, with what Mooring has no field for
    assert result["FailedNodes"] == {}
    assert refused(result) == {
        "red": "node(s) were red",
        "grey": "node(s) were refused by the extender's coloured",
    }


def test_the_same_nodes_may_be_answered_otherwise_the_next_time() -> None:
    """What was made of the last request is not mistaken for what this one needs."""

    @ext.filter
    def of_the_colour(pod: Pod, nodes: list[Node]) -> Any:
        colour = pod.name
        while nodes:  # the list is the handler's own
            each = nodes.pop()
            if each.metadata.labels.get("colour") == colour or colour == "any":
                yield each

    @ext.prioritize
    def by_length(pod: Pod, nodes: list[Node]) -> Any:
        nodes.reverse()
        return {each.name: len(each.name) if pod.name == "any" else 0 for each in nodes}

    with extender(of_the_colour, by_length) as it:
        for name, expected in [
            ("blue", ["blue"]),
            ("blue", ["blue"]),
            ("any", ["blue", "red"]),
            ("any", ["blue", "red"]),
            ("red", ["red"]),
            ("none", []),
        ]:
            result = it.filter(pod(name), BLUE, RED)
            assert passed(result) == expected, name
            assert set(refused(result)) == {"blue", "red"} - set(expected)
            assert it.prioritize(pod(name), BLUE, RED) == (
                {"blue": 4, "red": 3} if name == "any" else {"blue": 0, "red": 0}
            )
        assert passed(it.filter(pod("blue"), BLUE, node("red", colour="blue"))) == ["blue", "red"]


def test_a_request_that_ends_like_another_may_have_more_in_it() -> None:
    @ext.filter
    def anything(pod: Pod, node: Node) -> None:
        return None

    whole = {"metadata": {}, "items": [BLUE]}
    with extender(anything) as it:
        for _ in range(2):
            for request, names in [
                ({"Pod": pod(), "Nodes": None}, None),
                ({"Pod": pod(), "NodeNames": None}, None),
                ({"Pod": pod(), "Nodes": whole, "NodeNames": None}, ["blue"]),
                ({"Nodes": whole, "Pod": pod(), "NodeNames": None}, ["blue"]),
                ({"Pod": pod()}, None),
                ({"pod": pod("q"), "nodes": whole}, ["blue"]),
            ]:
                result = it.post("/filter", request).tree
                if names is None:
                    assert "the request has node names only" in result["Error"], request
                else:
                    assert passed(result) == names, request


def test_statuses_say_whether_evicting_pods_may_help() -> None:
    @ext.filter
    def by_status(node: Node) -> Any:
        return {"blue": unschedulable("full"), "red": unresolvable("red")}.get(node.name)

    with extender(by_status) as it:
        result = it.filter(pod(), BLUE, RED, GREY)
    assert passed(result) == ["grey"]
    assert result["FailedNodes"] == {"blue": "full"}
    assert result["FailedAndUnresolvableNodes"] == {"red": "red"}


@pytest.mark.parametrize(
    "answer",
    [
        lambda nodes: [nodes[0]],
        lambda nodes: (each for each in nodes if each.name == "blue"),
        lambda nodes: {"blue"},
        lambda nodes: {"red": "no", "grey": False},
        lambda nodes: {"red": unschedulable("no"), "grey": "no", "blue": None},
    ],
)
def test_all_nodes_at_once(answer: Callable[[list[Node]], Any]) -> None:
    @ext.filter
    def choose(pod: Pod, nodes: list[Node]) -> Any:
        return answer(nodes)

    with extender(choose) as it:
        result = it.filter(pod(), BLUE, RED, GREY)
    assert passed(result) == ["blue"]
    assert set(refused(result)) == {"red", "grey"}


def test_no_nodes_are_no_trouble() -> None:
    @ext.filter
    def none(nodes: list[Node]) -> Any:
        return nodes

    with extender(none) as it:
        assert it.post("/filter", {"Pod": pod(), "Nodes": {"metadata": {}, "items": None}}).tree == {
            "Nodes": {"items": [], "metadata": {}},
            "NodeNames": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }


def test_an_async_handler_may_wait_while_others_are_answered() -> None:
    release = asyncio.Event()

    @ext.filter("/slow")
    async def slow(nodes: list[Node]) -> Any:
        await release.wait()
        return nodes

    @ext.filter
    def quick(nodes: list[Node]) -> Any:
        release.set()
        return nodes

    with extender(slow, quick) as it:
        connection = it.connect()
        body = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[]}}'
        connection.request("POST", "/slow", body, {"Content-Type": "application/json"})
        assert passed(it.filter(pod(), BLUE)) == ["blue"]
        assert connection.getresponse().status == 200
        connection.close()


def test_the_request_as_it_came() -> None:
    @ext.filter
    def kubelet(pod: Pod, nodes: list[Node], request: dict[str, Any]) -> Any:
        assert pod.name == request["Pod"]["metadata"]["name"]
        return [
            each["metadata"]["name"]
            for each in request["Nodes"]["items"]
            if each["status"]["nodeInfo"]["kubeletVersion"] == "x"
        ]

    with extender(kubelet) as it:
        assert passed(it.filter(pod(), BLUE)) == ["blue"]


def test_nodes_that_were_sent_before_are_the_very_same_and_changes_are_seen() -> None:
    seen: list[Node] = []

    @ext.filter
    def look(nodes: list[Node]) -> Any:
        seen.append(nodes[0])
        return nodes

    with extender(look) as it:
        for each in (BLUE, BLUE, node("blue", colour="pale")):
            it.filter(pod(), each, RED)
    assert seen[0] is seen[1]
    assert [each.metadata.labels["colour"] for each in seen] == ["blue", "blue", "pale"]


# ---- prioritize


@pytest.mark.parametrize(
    "answer",
    [
        lambda nodes: [1, 0, 7],
        lambda nodes: {"blue": 1, "grey": 7},
        lambda nodes: np.array([1, 0, 7]),
        lambda nodes: (np.int32(score) for score in (1, 0, 7)),
    ],
)
def test_scores_of_all_nodes(answer: Callable[[list[Node]], Any]) -> None:
    @ext.prioritize
    def score(nodes: list[Node]) -> Any:
        return answer(nodes)

    with extender(score) as it:
        assert it.prioritize(pod(), BLUE, RED, GREY) == {"blue": 1, "red": 0, "grey": 7}


def test_scores_of_one_node_are_as_large_as_they_are() -> None:
    @ext.prioritize
    def score(pod: Pod, node: Node) -> int:
        return len(node.name) * 100 - 350

    with extender(score) as it:
        assert it.prioritize(pod(), BLUE, RED, GREY) == {"blue": 50, "red": -50, "grey": 50}


# ---- preempt


def victims(*uids: str) -> dict[str, Any]:
    pods = [{"metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid}} for uid in uids]
    return {"Pods": pods, "NumPDBViolations": 1}


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (lambda found: ["blue"], {"blue": ["1", "2"]}),
        (lambda found: {"blue": found["blue"].pods[:1]}, {"blue": ["1"]}),
        (lambda found: {"red": ["3"], "blue": ["2"]}, {"red": ["3"], "blue": ["2"]}),
        (lambda found: {k: v for k, v in found.items() if len(v.pods) == 1}, {"red": ["3"]}),
        (lambda found: [], {}),
    ],
)
def test_candidates_of_a_preemption(answer: Callable[[Any], Any], kept: dict[str, list[str]]) -> None:
    @ext.preempt
    def choose(pod: Pod, victims: dict[str, ext.Victims]) -> Any:
        return answer(victims)

    found = {"blue": victims("1", "2"), "red": victims("3")}
    with extender(choose) as it:
        reply = it.post("/preempt", {"Pod": pod(), "NodeNameToVictims": found, "NodeNameToMetaVictims": None})
    assert reply.code == 200
    assert reply.tree == {
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}
            for name, uids in kept.items()
        }
    }


# ---- failures


def test_a_handler_that_raises_is_told_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    @ext.filter
    def broken(nodes: list[Node]) -> Any:
        return nodes[10]

    @ext.prioritize
    def broken_too(node: Node) -> int:
        return {"red": 1}[node.name]

    with extender(broken, broken_too) as it:
        reply = it.post("/filter", {"Pod": pod(), "Nodes": {"items": [BLUE]}})
        assert (reply.code, reply.error) == (200, "handler broken: IndexError: list index out of range")
        assert reply.tree["Nodes"] is reply.tree["NodeNames"] is None
        reply = it.post("/prioritize", {"Pod": pod(), "Nodes": {"items": [BLUE]}})
        assert (reply.code, reply.tree) == (500, {"Error": "handler broken_too: KeyError: 'blue'"})
    assert "return nodes[10]" in caplog.text


def test_an_extender_error_is_the_message(caplog: pytest.LogCaptureFixture) -> None:
    @ext.filter
    def closed(nodes: list[Node]) -> Any:
        raise ext.ExtenderError("closed for today")

    with extender(closed) as it:
        assert it.filter(pod(), BLUE)["Error"] == "closed for today"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "TypeError: answered None; expected the nodes that pass"),
        ("blue", "TypeError: answered 'blue'; expected the nodes that pass"),
        (["white"], "ValueError: named node 'white', which was not in the request"),
        ({"white": "no"}, "ValueError: named node 'white', which was not in the request"),
        ({"blue": 3}, "TypeError: answered 3; expected None, True, False, a text or a Status"),
    ],
)
def test_odd_answers_of_filters(answer: Any, said: str) -> None:
    @ext.filter
    def odd(nodes: list[Node]) -> Any:
        return answer

    with extender(odd) as it:
        assert it.filter(pod(), BLUE)["Error"].startswith(f"handler odd: {said}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "TypeError: answered None; expected a score for each node"),
        ([1, 2], "ValueError: answered 2 scores for 1 node"),
        ([0.5], "TypeError: answered 0.5 for node blue; expected an integer"),
        ([None], "TypeError: answered None for node blue; expected an integer"),
        ([2**63], "ValueError: answered 9223372036854775808 for node blue; expected a 64-bit integer"),
        ({"white": 1}, "ValueError: named node 'white', which was not in the request"),
    ],
)
def test_odd_scores(answer: Any, said: str) -> None:
    @ext.prioritize
    def odd(nodes: list[Node]) -> Any:
        return answer

    with extender(odd) as it:
        reply = it.post("/prioritize", {"Pod": pod(), "Nodes": {"items": [BLUE]}})
    assert (reply.code, reply.error) == (500, f"handler odd: {said}")


def test_node_names_alone_are_not_enough_without_a_cache() -> None:
    @ext.filter
    def any_of(nodes: list[Node]) -> Any:
        return nodes

    with extender(any_of) as it:
        assert "--node-cache-capable" in it.filter(pod(), "blue")["Error"]


# ---- decorating


def test_a_function_stays_what_it_is_and_may_serve_twice() -> None:
    @ext.filter
    @ext.filter("/again")
    def fits(pod: Pod, node: Node) -> bool:
        return True

    assert fits(Pod(), Node()) is True
    assert [(each.verb, each.path) for each in handlers_of(fits)] == [
        ("filter", "/again"),
        ("filter", "/filter"),
    ]


def bad_parameter(pod: Pod, machine: Node) -> None: ...
def neither(pod: Pod) -> None: ...
def both(node: Node, nodes: list[Node]) -> None: ...
async def each_async(pod: Pod, node: Node) -> None: ...


@pytest.mark.parametrize(
    ("decorate", "said"),
    [
        (lambda: ext.filter(bad_parameter), "unknown parameter machine; use some of pod, node, nodes"),
        (lambda: ext.filter(neither), "expected either node or nodes, e.g. def fits(pod, node)"),
        (lambda: ext.filter(both), "expected either node or nodes"),
        (lambda: ext.filter(each_async), "an async handler is called with all of them at once"),
        (lambda: ext.bind(both), "unknown parameter nodes; use some of pod, node, client"),
        (lambda: ext.preempt(neither), ""),
        (lambda: ext.filter("only"), 'expected a plain path such as "/only"'),
        (lambda: ext.filter("/a?b"), "expected a plain path"),
        (lambda: ext.filter(Pod), "expected a function"),
    ],
)
def test_what_cannot_be_a_handler_says_so_when_decorated(decorate: Callable[[], Any], said: str) -> None:
    if not said:
        decorate()
        return
    with pytest.raises(HandlerError) as caught:
        decorate()
    assert said in str(caught.value)


# ---- loading


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_file_and_what_it_imports_from_beside_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        "serving_helper.py",
        "from mooring import extender\n@extender.prioritize\ndef s(node): ...\n",
    )
    text = "from mooring import extender\nfrom serving_helper import s\n@extender.filter\ndef f(node): ...\n"
    found = load_handlers(write(tmp_path, "mine.py", text))
    assert [(each.verb, each.name) for each in found] == [("prioritize", "s"), ("filter", "f")]


def test_a_file_may_have_the_name_of_another_module(tmp_path: Path) -> None:
    import json

    text = "from mooring import extender\n@extender.filter\ndef f(node): ...\n"
    assert len(load_handlers(write(tmp_path, "json.py", text))) == 1
    assert json.loads("1") == 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.py", "x = 1\n", "no handlers found\nhint: decorate a function with @extender.filter"),
        ("broken.py", "1 / 0\n", "ZeroDivisionError: division by zero"),
        ("syntax.py", "def\n", "SyntaxError"),
        ("needs.py", "import there_is_no_such_module\n", "No module named 'there_is_no_such_module'"),
        ("odd.py", "from mooring import extender\n@extender.filter\ndef f(x): ...\n", "unknown parameter x"),
    ],
)
def test_files_that_cannot_be_served(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(LoadingError) as caught:
        load_handlers(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_sources_that_are_not_there() -> None:
    for source, said in (
        ("nowhere.py", "nowhere.py: No such file or directory"),
        ("no_such_module", "no_such_module: No module named 'no_such_module'"),
    ):
        with pytest.raises(LoadingError) as caught:
            load_handlers(source)
        assert str(caught.value) == said


def test_two_behind_one_path() -> None:
    @ext.filter
    def one(node: Node) -> None: ...

    @ext.filter
    def another(node: Node) -> None: ...

    with (
        pytest.raises(LoadingError, match=r"/filter: found handler one and handler another"),
        extender(one, another),
    ):
        pass


def test_a_client_needs_a_cluster() -> None:
    @ext.bind
    async def bind(pod: Pod, node: str, client: Any) -> None: ...

    with pytest.raises(LoadingError, match="handler bind wants a client"), extender(bind):
        pass
