"""Extenders on a real API server: called by Mooring and by kube-scheduler, who ask and say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.extender.calling_kit import FakeExtender, names_of, serving, waiting_for
from tests.live.control_plane import ControlPlane
from tests.live.replica import Replica, configuration, wait_for
from tests.live.scene import Scene

CLOSED = "http://127.0.0.1:1"
MOORING, KUBE = "mooring-extended", "kube-extended"
Tree = dict[str, Any]


def answers(request: Tree) -> Any:
    """The pod's name says what it wants to hear."""
    wanted = request["Pod"]["metadata"]["name"].partition("-")[0]
    nodes = names_of(request)
    cached = request["NodeNames"] is not None

    def passing(names: list[str], **more: Any) -> Tree:
        if cached:
            return {"NodeNames": names, **more}
        items = [node for node in request["Nodes"]["items"] if node["metadata"]["name"] in names]
        return {"Nodes": {"items": items}, **more}

    if wanted == "refused":
        first, *others = sorted(nodes)
        return passing(
            [],
            FailedNodes=dict.fromkeys(others, "too hot"),
            FailedAndUnresolvableNodes={first: "on fire"},
        )
    if wanted == "error":
        return {"Error": "all node do not have label priority.example.com"}
    if wanted == "broken":
        return 500, b"oops"
    if wanted == "unknown":
        return passing([*nodes, "zebra"]) if cached else passing(nodes)
    return passing(sorted(nodes)[:2])


def scores(request: Tree) -> Any:
    """The last node is best."""
    return [{"Host": name, "Score": 10 * n} for n, name in enumerate(sorted(names_of(request)))]


def extenders(full: FakeExtender, cached: FakeExtender, **more: Any) -> list[Tree]:
    return [
        {
            "urlPrefix": full.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "weight": 10,
            **more,
        },
        {"urlPrefix": cached.url, "filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True},
        {
            "urlPrefix": CLOSED,
            "filterVerb": "filter",
            "managedResources": [{"name": "example.com/down", "ignoredByScheduler": True}],
        },
        {
            "urlPrefix": cached.url,
            "filterVerb": "think",
            "httpTimeout": "300ms",
            "managedResources": [{"name": "example.com/slow", "ignoredByScheduler": True}],
        },
    ]


def remaining(request: Tree) -> Any:
    """Preemption goes ahead as it was planned."""
    meta = request["NodeNameToMetaVictims"]
    if meta is None:
        meta = {
            name: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in on["Pods"]]}
            for name, on in request["NodeNameToVictims"].items()
        }
    return {"NodeNameToMetaVictims": meta}


@contextmanager
def asked() -> Iterator[tuple[FakeExtender, FakeExtender]]:
    with waiting_for(30) as wait:

        def served() -> AbstractContextManager[FakeExtender]:
            return serving(filter=answers, prioritize=scores, preempt=remaining, think=lambda request: wait())

        with served() as full, served() as cached:
            yield full, cached


def paths(tree: Any, prefix: str = "") -> set[str]:
    """Every key there is, and where."""
    if isinstance(tree, dict):
        inside = [paths(value, f"{prefix}.{key}") for key, value in tree.items()]
        return {prefix}.union(*inside)
    if isinstance(tree, list):
        return {prefix}.union(*(paths(item, f"{prefix}[]") for item in tree))
    return {prefix}


def questions(extender: FakeExtender, verb: str, pod: str) -> set[str]:
    """The keys of what was asked about a pod; by name where they are names."""
    found: set[str] = set()
    for body in extender.asked(verb):
        if body["Pod"]["metadata"]["name"] == pod:
            for form in ("NodeNameToVictims", "NodeNameToMetaVictims"):
                if body.get(form):
                    body = {**body, form: list(body[form].values())}
            found |= paths(body)
    # Managed fields are nobody's business, and half of a node; conditions come with the second attempt.
    left_out = (".managedFields", ".Pod.status.conditions")
    return {path for path in found if not any(each in path for each in left_out)}


def asking_for(resource: str) -> Tree:
    amounts = {resource: "1"}
    return {
        "containers": [
            {
                "name": "main",
                "image": "pause",
                "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": amounts, "requests": amounts},
            }
        ]
    }


PODS: dict[str, Tree] = {
    "fits": {},
    "refused": {},
    "error": {},
    "broken": {},
    "unknown": {},
    "down": asking_for("example.com/down"),
    "slow": asking_for("example.com/slow"),
}


class Story:
    """One scheduler's: what its pods heard."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.suffix = name.partition("-")[0]
        scene.scheduler_name = name
        for pod, spec in PODS.items():
            scene.pod(f"{pod}-{self.suffix}", **spec)
        self.node = scene.bound(f"fits-{self.suffix}")[0]
        refused = [pod for pod in PODS if pod != "fits"]
        self.messages = {pod: scene.refused(f"{pod}-{self.suffix}")["message"] for pod in refused}
        self.reasons = {pod: scene.refused(f"{pod}-{self.suffix}")["reason"] for pod in refused}

    def preempt(self) -> None:
        """Fill the nodes, and have an important pod find room."""
        scene, suffix = self.scene, self.suffix
        for n in range(3):
            scene.pod(f"filler{n}-{suffix}", cpu="3")
        scene.bound(*(f"filler{n}-{suffix}" for n in range(3)))
        scene.pod(f"vip-{suffix}", cpu="3", priorityClassName=f"{scene.namespace}-vip")
        wait_for(
            lambda: [e for n in range(3) for e in scene.events(f"filler{n}-{suffix}", "Preempted")],
            "a filler is preempted",
        )
        for n in range(3):
            scene.delete(f"filler{n}-{suffix}")
        scene.delete(f"vip-{suffix}")


def test_mooring_asks_and_says_what_kube_scheduler_does(
    control_plane: ControlPlane, scene: Scene, tmp_path: Path
) -> None:
    if not control_plane.has("kube-scheduler"):
        pytest.skip("compares with kube-scheduler: put its binary into KUBEBUILDER_ASSETS")
    nodes = [scene.node(name) for name in "abc"]
    scene.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": f"{scene.namespace}-vip"}, "value": 1000},
    )
    kubeconfig = control_plane.kubeconfig()
    with asked() as ours, asked() as theirs:
        config = configuration(kubeconfig, MOORING, extenders=extenders(*ours))
        with Replica(tmp_path, config) as replica:
            replica.ready()
            mooring = Story(scene, MOORING)
            mooring.preempt()
            assert replica.end() == 0, replica.log
        scene.delete(f"fits-{mooring.suffix}")
        file = tmp_path / "kube-scheduler.yaml"
        file.write_text(json.dumps(configuration(kubeconfig, KUBE, extenders=extenders(*theirs))))
        with control_plane.kube_scheduler(file):
            kube = Story(scene, KUBE)
            kube.preempt()

        assert mooring.node == kube.node == sorted(nodes)[1]
        assert mooring.reasons == kube.reasons
        urls = {o.url: t.url for o, t in zip(ours, theirs, strict=True)}
        for pod, message in mooring.messages.items():
            for our_url, their_url in urls.items():
                message = message.replace(our_url, their_url)
            assert message == kube.messages[pod]
        shown = questions(ours[0], "filter", f"down-{mooring.suffix}")
        assert {".Pod.spec.containers[].env[].name", ".Nodes.items[].status.nodeInfo.kubeletVersion"} <= shown
        assert ".NodeNameToVictims[].Pods[].spec.containers[].image" in questions(
            ours[0], "preempt", f"vip-{mooring.suffix}"
        )
        for mine, other in zip(ours, theirs, strict=True):
            for verb, pods in (("filter", PODS), ("prioritize", ["fits"]), ("preempt", ["vip"])):
                for pod in pods:
                    found = questions(mine, verb, f"{pod}-{mooring.suffix}")
                    assert found == questions(other, verb, f"{pod}-{kube.suffix}"), (verb, pod)


def test_an_extender_binds(control_plane: ControlPlane, scene: Scene, tmp_path: Path) -> None:
    """As that of the document does: it posts the binding itself."""
    node = scene.node("a")

    def bind(request: Tree) -> Any:
        metadata = {
            "name": request["PodName"],
            "namespace": request["PodNamespace"],
            "uid": request["PodUID"],
        }
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": request["Node"]},
        }
        path = f"/api/v1/namespaces/{request['PodNamespace']}/pods/{request['PodName']}/binding"
        control_plane.request("POST", path, json.dumps(body).encode())
        return {"Error": ""}

    with serving(bind=bind) as extender:
        settings = [{"urlPrefix": extender.url, "bindVerb": "bind"}]
        config = configuration(control_plane.kubeconfig(), MOORING, extenders=settings)
        scene.scheduler_name = MOORING
        with Replica(tmp_path, config) as replica:
            replica.ready()
            for n in range(20):
                scene.pod(f"web-{n}")
            assert set(scene.bound(*(f"web-{n}" for n in range(20)))) == {node}
            assert scene.event("web-3", "Scheduled")["note"].endswith(f"/web-3 to {node}")
            assert replica.end() == 0, replica.log
        assert len(extender.asked("bind")) == 20
        bindings = control_plane.bindings(scene.namespace)
        assert {binding.code for binding in bindings} == {201}
        assert len(bindings) == 20
        assert not any("mooring" in binding.agent for binding in bindings)
