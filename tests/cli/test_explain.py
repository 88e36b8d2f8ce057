"""`mooring explain`: from manifests, from a cluster, and from a running scheduler."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from mooring.api.decode import from_dict
from mooring.api.events import Event
from mooring.api.meta import ObjectMeta, ObjectReference
from mooring.api.workloads import ReplicaSet, ReplicaSetSpec
from mooring.cli.output import wrap
from mooring.cli.targets import describe, short_workloads
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.explain.causes import list_workload
from mooring.explain.explain import decisions, recent
from mooring.explain.log import DecisionLog
from tests.cli.command import mooring
from tests.cli.test_schedule import QUICKSTART, manifests, node, pod
from tests.client.certificates import authority, loopback

TOKEN = "an-open-secret"
Answer = Callable[[str, str], tuple[int, Any]]


@contextmanager
def serving(answer: Answer, *, tls: bool = True) -> Iterator[str]:
    """A server on loopback that answers GETs by path and Authorization header; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path, self.headers.get("Authorization", ""))
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = loopback().context().wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def kubeconfig(folder: Path, server: str, **context: str) -> str:
    """A kubeconfig for a server that trusts the tests' own authority."""
    file = folder / "kubeconfig"
    trusted = folder / "ca.crt"
    trusted.write_bytes(authority().certificate)
    cluster = {"server": server, "certificate-authority": str(trusted)}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", **context}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": TOKEN}}],
    }
    file.write_text(yaml.safe_dump(tree))
    return str(file)


# ---- manifests


def test_a_pending_pod_from_manifests() -> None:
    result = mooring("explain", "hotfix", "-f", QUICKSTART)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "default/hotfix is pending: none of 4 nodes fits; "
        "evicting default/batch-2 from node-a2 would make room"
    )
    assert "  1 node   drop the node selector topology.kubernetes.io/zone=zone-a  (node-b1)" in lines
    assert any(line.startswith("           $ kubectl patch pod hotfix --type=merge -p ") for line in lines)
    assert "\x1b" not in result.stdout


def test_as_json_it_is_an_explanation() -> None:
    result = mooring("explain", "default/hotfix", "-f", QUICKSTART, "-o", "json")
    found = json.loads(result.stdout)
    assert (found["pod"], found["state"]) == ("default/hotfix", "pending")
    assert found["now"]["preemption"]["victims"] == ["default/batch-2"]
    assert {"kind", "text", "nodes", "examples"} <= found["now"]["changes"][0].keys()


def test_a_snapshot_of_a_cluster_tells_where_a_pod_would_go_today() -> None:
    bound = pod("web", nodeName="b")
    bound["metadata"]["namespace"] = "prod"
    snapshot = manifests(node("a", cpu="8"), node("b"), bound)
    result = mooring("explain", "web", "-f", "-", stdin=snapshot)
    assert result.stdout.splitlines()[0] == (
        "prod/web is on b; if it were scheduled again, 2 of 2 nodes would take it now, a best"
    )


def test_an_unknown_pod_says_where_was_looked_and_what_is_near() -> None:
    objects = manifests(node("a"), pod("web-5d9c7-abcde"), pod("web-5d9c7-fghij"), pod("db-0"))
    result = mooring("explain", "web-5d9c7-abcdf", "-f", "-", stdin=objects)
    assert result.returncode == 1
    assert "pod default/web-5d9c7-abcdf: not found in standard input" in result.stderr
    assert "hint: did you mean default/web-5d9c7-abcde" in result.stderr
    assert "db-0" not in result.stderr
    elsewhere = mooring("explain", "db-0", "-n", "prod", "-f", "-", stdin=objects)
    assert elsewhere.returncode == 1
    assert "hint: did you mean default/db-0?" in elsewhere.stderr


def test_a_configuration_and_plugins_count(tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(
        "from mooring.framework import Plugin, unschedulable\n"
        "class Picky(Plugin):\n"
        "    name = 'Picky'\n"
        "    def filter(self, state, pod, node):\n"
        "        return unschedulable('not this one')\n"
    )
    enabled = {"multiPoint": {"enabled": [{"name": "Picky"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": enabled}],
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    options = ("--config", "config.yaml", "--plugin", "picky:Picky", "-f", "-")
    result = mooring("explain", "p", *options, cwd=tmp_path, stdin=manifests(node("a"), node("b"), pod("p")))
    assert "  2 nodes (a, b), refused by\n    Picky: not this one\n" in result.stdout


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["p", "-f", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["p", "-f", "-", "--config", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["p", "-f", "-", "--endpoint", "https://x"], "-f and --endpoint are mutually exclusive"),
        (["a/p", "-n", "b", "-f", "-"], 'pod "a/p" is not in namespace "b"'),
        (["a/b/c", "-f", "-"], '"a/b/c": expected NAME, NAMESPACE/NAME or KIND/NAME'),
        (["p", "--kubeconfig", "missing"], "missing: kubeconfig: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named_and_exits_2(args: list[str], text: str, tmp_path: Path) -> None:
    result = mooring("explain", *args, cwd=tmp_path)
    assert result.returncode == 2
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_headings_are_bold_in_a_terminal_only() -> None:
    script = (
        "import pty, sys\nsys.exit(pty.spawn([sys.argv[1], 'explain', 'hotfix', '-f', sys.argv[2]]) >> 8)\n"
    )
    command = [sys.executable, "-c", script, str(Path(sys.executable).parent / "mooring"), QUICKSTART]
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert "\x1b[1mNow: 0 of 4 nodes would take it" in result.stdout


def test_schedule_explains_what_would_make_a_pending_pod_fit() -> None:
    objects = manifests(node("a"), node("b"), pod("big", cpu="6"), pod("small"))
    result = mooring("schedule", "-f", "-", "--explain", "big", "--explain", "small", stdin=objects)
    assert result.returncode == 0
    assert result.stdout.count("Any one of these would do\n") == 1
    assert "  1 node   add a node with at least 6 cpu" in result.stdout


# ---- a cluster


def listing(objects: list[dict[str, Any]], *, forbidden: tuple[str, ...] = ()) -> Answer:
    """An API server's lists, two objects a page."""
    plurals = {"Node": "nodes", "Pod": "pods"}

    def answer(path: str, authorization: str) -> tuple[int, Any]:
        assert authorization == f"Bearer {TOKEN}"
        url = urlsplit(path)
        plural = url.path.rpartition("/")[2]
        if plural in forbidden:
            message = f'{plural} is forbidden: User "me" cannot list resource "{plural}"'
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
        found = [each for each in objects if plurals[each["kind"]] == plural]
        if not url.query:  # one object, of which there is none that the lists leave out
            return 404, {"kind": "Status", "reason": "NotFound", "code": 404}
        start = int(dict(part.split("=") for part in url.query.split("&")).get("continue", 0))
        more = {"continue": str(start + 2)} if start + 2 < len(found) else {}
        return 200, {"metadata": {"resourceVersion": "7", **more}, "items": found[start : start + 2]}

    return answer


CLUSTER = [
    node("a", cpu="1"),
    node("b", cpu="1"),
    node("c", cpu="2"),
    {**pod("web", cpu="4"), "metadata": {"name": "web", "namespace": "team", "uid": "1"}},
]


def test_from_the_cluster_of_the_kubeconfig(tmp_path: Path) -> None:
    with serving(listing(CLUSTER, forbidden=("persistentvolumes",))) as url:
        config = kubeconfig(tmp_path, url, namespace="team")
        result = mooring("explain", "web", "--kubeconfig", config)
        other = mooring("explain", "wep", "--kubeconfig", config)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "team/web is pending: none of 3 nodes fits; what would help on 3 nodes: request at most "
    )
    assert lines[1] == f"  computed from the cluster at {url}; past attempts are unknown"
    assert 'skipped: all persistentvolumes: persistentvolumes is forbidden: User "me"' in result.stderr
    assert other.returncode == 1
    assert f"pod team/wep: not found in the cluster at {url}" in other.stderr
    assert "did you mean team/web?" in other.stderr


def test_an_unreachable_scheduler_in_the_kubeconfig_is_a_warning(tmp_path: Path) -> None:
    with serving(listing(CLUSTER)) as url:
        config = Path(kubeconfig(tmp_path, url, namespace="team"))
        tree = yaml.safe_load(config.read_text())
        extension = {"name": "mooring/scheduler", "extension": "https://127.0.0.1:1"}
        tree["clusters"][0]["cluster"]["extensions"] = [extension]
        config.write_text(yaml.safe_dump(tree))
        result = mooring("explain", "web", "--kubeconfig", str(config))
    assert result.returncode == 0, result.stderr
    assert "computed from the cluster" in result.stdout
    assert "warning: ignoring the scheduler named in the kubeconfig: https://127.0.0.1:1: " in result.stderr


def test_a_cluster_that_cannot_be_reached_or_refuses_exits_3(tmp_path: Path) -> None:
    with serving(listing(CLUSTER, forbidden=("nodes",))) as url:
        refused = mooring("explain", "web", "--kubeconfig", kubeconfig(tmp_path, url))
    gone = mooring("explain", "web", "--kubeconfig", kubeconfig(tmp_path, url))
    assert (refused.returncode, gone.returncode) == (3, 3)
    assert 'cannot list resource "nodes"' in refused.stderr
    assert url in gone.stderr
    assert TOKEN not in refused.stderr + gone.stderr
    assert "Traceback" not in refused.stderr + gone.stderr


# ---- a running scheduler


def scheduler_endpoint() -> Answer:
    """What a scheduler serves that has tried its pods."""
    log = DecisionLog()
    scheduler = Scheduler(clock=time.time, pick=random.Random(0).randrange, log=log)
    cluster = MemoryCluster(scheduler)
    for obj in (node("a"), node("b", cpu="8"), pod("web"), pod("big", cpu="64")):
        obj["metadata"].update({"namespace": "default", "uid": obj["metadata"]["name"]})
        if obj["kind"] == "Node":
            del obj["metadata"]["namespace"]
        cluster.apply(from_dict(obj))
    cluster.run()

    def answer(path: str, authorization: str) -> tuple[int, Any]:
        if authorization != f"Bearer {TOKEN}":
            return 401, b"Unauthorized"
        parts = path.split("/")
        if parts[1:3] != ["debug", "decisions"]:
            return 404, b"404 page not found"
        if len(parts) == 3:
            return 200, recent(scheduler, log)
        found = decisions(scheduler, log, *parts[3:])
        return (404, b"no such pod") if found is None else (200, found)

    return answer


def test_a_running_scheduler_knows_its_attempts(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1")
    with serving(scheduler_endpoint()) as url:
        ask = ("--kubeconfig", config, "--endpoint", url)
        placed, pending = mooring("explain", "web", *ask), mooring("explain", "big", *ask, "-o", "json")
        unknown = mooring("explain", "wep", *ask)
    assert placed.returncode == 0, placed.stderr
    assert placed.stdout.startswith("default/web is on b: best of 2 that fit")
    assert "Attempts\n" in placed.stdout
    answer = json.loads(pending.stdout)
    assert (answer["state"], answer["waiting"]["queue"], len(answer["attempts"])) == (
        "pending",
        "unschedulable",
        1,
    )
    assert unknown.returncode == 1
    assert (
        f"not found in the queue, the cache and the recent decisions of the scheduler at {url}"
        in unknown.stderr
    )
    assert "did you mean default/web?" in unknown.stderr


def test_an_endpoint_must_be_the_one_it_says_it_is(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        Path(kubeconfig(tmp_path, "https://127.0.0.1:1"))
        .read_text()
        .replace("certificate-authority", "tls-server-name")
    )
    trusted = str(tmp_path / "ca.crt")
    seen: list[str] = []
    real = scheduler_endpoint()

    def answer(path: str, authorization: str) -> tuple[int, Any]:
        seen.append(authorization)
        return real(path, authorization)

    with serving(answer) as url:
        ask = ("explain", "web", "--kubeconfig", str(config), "--endpoint", url)
        doubtful = mooring(*ask)
        assert seen == []  # no token for a stranger
        vouched = mooring(*ask, "--endpoint-certificate-authority", trusted)
        any_one = mooring(*ask, "--insecure-skip-tls-verify")
        wrong = mooring(*ask, "--endpoint-certificate-authority", str(config))
    assert (doubtful.returncode, vouched.returncode, any_one.returncode, wrong.returncode) == (3, 0, 0, 3)
    assert "the certificate is not trusted" in doubtful.stderr
    assert "--endpoint-certificate-authority" in doubtful.stderr
    assert str(config) in wrong.stderr


def test_a_token_is_not_said_over_plain_http(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1")
    with serving(scheduler_endpoint(), tls=False) as url:
        result = mooring("explain", "web", "--kubeconfig", config, "--endpoint", url)
    assert result.returncode == 3
    assert "401 Unauthorized\nhint: use https" in result.stderr


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (403, b"no", "the verb get on the nonResourceURLs /debug/decisions and /debug/decisions/*"),
        (404, b"404 page not found", "/debug/decisions not found\nhint: is this a mooring scheduler?"),
        (500, b"oops", "GET /debug/decisions/default/web: status 500"),
        (200, b"<html>", "invalid response"),
    ],
)
def test_an_endpoint_of_another_kind(status: int, body: bytes, text: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1")
    with serving(lambda path, authorization: (status, body)) as url:
        result = mooring("explain", "web", "--kubeconfig", config, "--endpoint", url)
    assert result.returncode == 3
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_an_endpoint_that_is_not_there_or_no_url(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1")
    for endpoint in ("https://127.0.0.1:1", "https://127.0.0.1:port", "https://"):
        result = mooring("explain", "web", "--kubeconfig", config, "--endpoint", endpoint)
        assert result.returncode == 3, endpoint
        assert endpoint in result.stderr
        assert "Traceback" not in result.stderr


# ---- several pods, workloads, causes


def deployment(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "x"}], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


SEVERAL = manifests(
    node("a"),
    deployment("web", 3, nodeSelector={"disk": "ssd"}),
    pod("big", cpu="9"),
    pod("other", schedulerName="mine"),
    pod("small"),
)


def test_a_workload_is_explained_once_for_its_pods() -> None:
    result = mooring("explain", "deploy/web", "-f", "-", stdin=SEVERAL)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("$ kubectl label node a disk=ssd") == 1
    assert "2 more pods for the same cause: default/web-" in result.stdout
    assert mooring("explain", "deploy/wep", "-f", "-", stdin=SEVERAL).returncode == 1


def test_several_pods_as_yaml() -> None:
    result = mooring("explain", "big", "pod/small", "-l", "app=web", "-o", "yaml", "-f", "-", stdin=SEVERAL)
    found = yaml.safe_load(result.stdout)
    assert [each["state"] for each in found["pods"]] == ["pending"] * 5
    assert mooring("explain", "-l", "app=none", "-f", "-", stdin=SEVERAL).returncode == 1
    assert mooring("explain", "-f", "-", stdin=SEVERAL).returncode == 2


def test_pending_pods_by_cause_the_largest_first() -> None:
    result = mooring("pending", "-f", "-", stdin=SEVERAL)
    assert result.returncode == 0, result.stderr
    groups = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert groups[0] == "6 pods are pending, for 4 causes"
    assert groups[1].startswith("3 pods: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity")
    assert any("would fit now" in group for group in groups)
    assert mooring("explain", "-A", "-f", "-", stdin=SEVERAL).stdout == result.stdout
    found = json.loads(mooring("pending", "-o", "json", "-f", "-", stdin=SEVERAL).stdout)
    assert (found["pending"], len(found["causes"][0]["pods"])) == (6, 3)


def test_a_dump_that_lacks_a_kind_says_which_command_is_missing() -> None:
    result = mooring("explain", "p", "-f", "-", stdin=manifests(pod("p")))
    assert "hint: add the output of `kubectl get nodes -o yaml`" in result.stderr
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    result = mooring("explain", "p", "-f", "-", stdin=manifests(node("a"), pod("p", volumes=volumes)))
    assert "hint: add the output of `kubectl get pvc,pv,storageclass -A -o yaml`" in result.stderr


def test_custom_resources_that_a_plugin_watches_are_read(tmp_path: Path) -> None:
    (tmp_path / "teams.py").write_text(
        "from mooring.framework import ApiResource, KubeObject, Plugin, unschedulable\n"
        "class Team(KubeObject):\n"
        "    spec: dict[str, str] = {}\n"
        "TEAMS = ApiResource('example.com', 'v1', 'teams', True, Team)\n"
        "class Teams(Plugin):\n"
        "    name = 'Teams'\n"
        "    watches = (TEAMS,)\n"
        "    def filter(self, state, pod, node):\n"
        "        teams = self.handle.listers.list(Team)\n"
        "        if not any(team.spec.get('node') == node.name for team in teams):\n"
        "            return unschedulable('no team has this node')\n"
    )
    team = {"apiVersion": "example.com/v1", "kind": "Team", "metadata": {"name": "t"}, "spec": {"node": "b"}}
    objects = manifests(node("a"), node("b"), pod("p"), team)
    options = ("--plugin", "teams:Teams", "-f", "-")
    result = mooring("explain", "p", *options, cwd=tmp_path, stdin=objects)
    assert "1 of 2 nodes would take it now, b best" in result.stdout, result.stderr
    assert result.stderr == ""
    assert "default/p  b " in mooring("schedule", *options, cwd=tmp_path, stdin=objects).stdout


def test_a_workload_short_of_pods_says_why() -> None:
    owner = ReplicaSet(metadata=ObjectMeta(name="web", namespace="default"), spec=ReplicaSetSpec(replicas=3))
    regarding = ObjectReference(kind="ReplicaSet", namespace="default", name="web")
    event = Event(reason="FailedCreate", regarding=regarding, note="exceeded quota: q")
    found = describe(owner, [owner, event])
    assert (found.desired, found.pods, found.message) == (3, 0, "exceeded quota: q")
    assert next(list_workload(found)) == (
        "replicaset/web in default has 0 of 3 pods: the others could not be created"
    )
    assert short_workloads([owner, event], "") == [found]


def test_lines_wrap_between_words_and_commands_do_not() -> None:
    lines = wrap("  2 nodes  " + "label node a " * 9, 60)
    assert len(lines) == 3
    assert all(len(line) <= 60 for line in lines)
    assert [line[:11] for line in lines] == ["  2 nodes  ", " " * 11, " " * 11]
    assert "".join(line.strip() for line in lines).count("label") == 9
    command = "     $ kubectl " + "x " * 50
    assert wrap(command, 60) == [command]
