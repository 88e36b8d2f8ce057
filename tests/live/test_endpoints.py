"""The endpoints of `mooring scheduler` on a real API server: who is let in, when it is ready, and whether it
serves what kube-scheduler serves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.accounts import GROUP, RBAC, Account
from tests.live.cluster import TestCluster
from tests.live.control_plane import ControlPlane, free_port
from tests.live.replica import LEADS, Replica, configuration, wait_for
from tests.live.scene import Scene
from tests.serving.certificates import ClientAuthority, showing
from tests.serving.kit import Reply, ask

ENDPOINTS = "mooring-endpoints"


class Serving(Replica):
    """A replica that serves."""

    def __init__(self, folder: Path, config: dict[str, Any], *flags: str) -> None:
        self.port = free_port()
        serve = ("--bind-address=127.0.0.1", f"--secure-port={self.port}")
        denied = "--authorization-webhook-cache-unauthorized-ttl=0s"  # rights are given while tests wait
        super().__init__(folder, config, *serve, denied, *flags)

    def ask(self, path: str, token: str = "", **more: Any) -> Reply:
        def look() -> list[Reply]:
            assert self.running, self.log
            return _answers(self.port, path, token, **more)

        return wait_for(look, f"an answer from {self.folder.name}")[0]

    def allows(self, path: str, token: str = "", **more: Any) -> Reply:
        """Wait until it does: an API server learns of new rights a moment later."""

        def look() -> list[Reply]:
            return [reply for reply in (self.ask(path, token, **more),) if reply.status == 200]

        return wait_for(look, f"{path} is allowed")[0]

    def __enter__(self) -> Serving:
        return self


def _answers(port: int, path: str, token: str, **more: Any) -> list[Reply]:
    """One, where somebody listens."""
    try:
        return [ask(port, path, token, **more)]
    except ConnectionRefusedError:
        return []


class Reader:
    """A ServiceAccount that may get some paths, and its token."""

    def __init__(self, scene: Scene, name: str, *paths: str) -> None:
        namespace = scene.namespace
        self.user = f"system:serviceaccount:{namespace}:{name}"
        scene.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        if paths:
            subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
            allow(scene, f"{namespace}-{name}", subject, *paths)
        self.token = scene.cluster.token(name, namespace)


def allow(scene: Scene, name: str, subject: dict[str, str], *paths: str) -> None:
    rules = [{"nonResourceURLs": list(paths), "verbs": ["get"]}]
    scene.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    scene.create(f"{RBAC}/clusterrolebindings", body)


@pytest.fixture(scope="module")
def serving(cluster: TestCluster, kubeconfig: Path) -> Iterator[Serving]:
    """With the ServiceAccount of deploy/."""
    with Serving(cluster.folder, configuration(kubeconfig, ENDPOINTS)) as replica:
        replica.ready()
        yield replica
        assert replica.end() == 0, replica.log


@pytest.fixture
def scene(cluster: TestCluster) -> Iterator[Scene]:
    made = Scene(cluster, "endpoints", ENDPOINTS)
    try:
        yield made
    finally:
        made.clear()


# ---- who is let in


def test_tokens_and_rights(serving: Serving, scene: Scene) -> None:
    assert serving.ask("/metrics").refusal == (401, "Unauthorized", "Unauthorized")
    assert serving.ask("/metrics", "no-such-token").refusal == (401, "Unauthorized", "Unauthorized")
    stranger, scraper = Reader(scene, "stranger"), Reader(scene, "scraper", "/metrics")
    told = f'forbidden: User "{stranger.user}" cannot get path "/metrics"'
    assert serving.ask("/metrics", stranger.token).refusal == (403, "Forbidden", told)
    assert "scheduler_pending_pods" in serving.allows("/metrics", scraper.token).text
    assert serving.ask("/configz", scraper.token).status == 403
    assert serving.ask("/metrics", scraper.token, method="HEAD").status == 403
    for path in ("/healthz", "/livez", "/readyz"):
        assert serving.ask(path).text == "ok"
    for secret in (stranger.token, scraper.token, "no-such-token"):
        assert secret[:12] not in serving.log


def test_the_role_of_deploy_is_enough_for_prometheus(serving: Serving, scene: Scene) -> None:
    reader = Reader(scene, "prometheus")
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": scene.namespace}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "mooring-metrics-reader"}
    body = {"metadata": {"name": scene.namespace}, "roleRef": reference, "subjects": [subject]}
    scene.create(f"{RBAC}/clusterrolebindings", body)
    for path in ("/metrics", "/metrics/resources", "/metrics/slis"):
        serving.allows(path, reader.token)


def test_certificates(cluster: TestCluster, kubeconfig: Path, scene: Scene, tmp_path: Path) -> None:
    authority = ClientAuthority()
    file = tmp_path / "clients.crt"
    file.write_bytes(authority.certificate)
    group = f"{scene.namespace}-scrapers"
    allow(scene, group, {"kind": "Group", "apiGroup": GROUP, "name": group}, "/metrics")
    config = configuration(kubeconfig, f"{ENDPOINTS}-certificates")
    with Serving(cluster.folder, config, f"--client-ca-file={file}") as replica:
        known, other = (showing(authority.issue("scraper", each)) for each in (group, "others"))
        replica.allows("/metrics", context=known)
        told = 'forbidden: User "scraper" cannot get path "/metrics"'
        assert replica.ask("/metrics", context=other).refusal == (403, "Forbidden", told)


def test_an_api_server_that_cannot_be_asked(cluster: TestCluster, kubeconfig: Path, scene: Scene) -> None:
    nowhere = cluster.kubeconfig(token="t", server=f"https://127.0.0.1:{free_port()}")
    config = configuration(kubeconfig, f"{ENDPOINTS}-nowhere")
    with Serving(cluster.folder, config, f"--authentication-kubeconfig={nowhere}") as replica:
        replica.ready()
        refusal = replica.ask("/metrics", Reader(scene, "scraper", "/metrics").token)
        assert refusal.refusal[:2] == (500, "InternalError")
        assert replica.ask("/readyz").status == 200
        assert replica.lines("tokenreviews.authentication.k8s.io failed")
        assert replica.end() == 0


# ---- readiness


def test_it_is_ready_when_it_knows_the_cluster(cluster: TestCluster, scene: Scene) -> None:
    account = Account(scene, "blind", "list pods")
    reader = Reader(scene, "operator", "/readyz/sched-handler-sync")
    config = configuration(account.kubeconfig, f"{ENDPOINTS}-blind")
    flag = f"--authentication-kubeconfig={cluster.admin}", f"--authorization-kubeconfig={cluster.admin}"
    with Serving(cluster.folder, config, *flag) as replica:
        told = "internal server error: handlers are not fully synchronized: pods\n"
        detail = "/readyz/sched-handler-sync"
        wait_for(lambda: replica.ask(detail, reader.token).text == told, "all but the pods are known")
        assert replica.ask("/readyz").text == (
            "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
        )
        assert replica.ask("/healthz").status == replica.ask("/livez").status == 200
        account.allow_all()
        replica.allows("/readyz")
        assert replica.ask(detail, reader.token).text == "ok"
        assert replica.end() == 0


def test_a_standby_is_ready_and_does_not_speak_for_the_cluster(
    cluster: TestCluster, kubeconfig: Path, scene: Scene
) -> None:
    reader = Reader(scene, "operator", "/metrics", "/metrics/resources", "/readyz/leaderElection")
    election = {"leaderElect": True, "resourceName": "mooring", "resourceNamespace": "mooring"}
    config = configuration(kubeconfig, ENDPOINTS, leaderElection=election)
    scene.pod("web", nodeName=scene.node("n"))
    with Serving(cluster.folder, config) as leader:
        leader.says(LEADS)
        with Serving(cluster.folder, config) as standby:
            standby.ready()
            standby.allows("/readyz/leaderElection", reader.token)
            for replica, leads in ((leader, 1), (standby, 0)):
                assert replica.ask("/readyz?verbose").text == (
                    "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
                )
                assert f'leader_election_master_status{{name="mooring"}} {leads}.0' in (
                    replica.ask("/metrics", reader.token).text
                )
                pods = replica.ask("/metrics/resources", reader.token).text
                assert (f'namespace="{scene.namespace}",pod="web"' in pods) == bool(leads)
            assert standby.end() == 0
        assert leader.end() == 0


# ---- what is served


def test_mooring_explain_asks_it(serving: Serving, scene: Scene) -> None:
    scene.node("small", cpu="1")
    scene.pod("large", cpu="8")
    scene.refused("large")
    reader = Reader(scene, "operator", "/debug/decisions", "/debug/decisions/*")
    serving.allows("/debug/decisions", reader.token)
    command = [
        *(sys.executable, "-m", "mooring.cli", "explain", "large", "-n", scene.namespace),
        f"--kubeconfig={scene.cluster.kubeconfig(token=reader.token)}",
        f"--endpoint=https://127.0.0.1:{serving.port}",
        "--insecure-skip-tls-verify",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "NodeResourcesFit" in done.stdout
    assert "Attempts" in done.stdout  # which only the scheduler itself knows


def test_sigusr2_tells_what_is_in_memory(serving: Serving, scene: Scene) -> None:
    node = scene.node("n", cpu="1")
    scene.pod("web")
    scene.pod("large", cpu="8")
    scene.bound("web")
    scene.refused("large")
    serving.process.send_signal(signal.SIGUSR2)
    serving.says("In flight: 0; held by permit plugins: 0")
    assert f"Node {node}: 1 of 1000 pods\n  requested: cpu 10m\n" in serving.log
    assert serving.lines(f"  {scene.namespace}/web uid=")
    assert serving.lines(f"unschedulable: {scene.namespace}/large uid=", "refused by NodeResourcesFit")


# ---- beside kube-scheduler


class KubeScheduler:
    """The real one, for pods of its own."""

    def __init__(self, plane: ControlPlane, config: Path) -> None:
        self.port = free_port()
        self._log = (plane.folder / "kube-scheduler.log").open("wb")
        kubeconfig = plane.kubeconfig()
        self._process = subprocess.Popen(
            [
                str(plane.binaries / "kube-scheduler"),
                f"--config={config}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def ask(self, path: str, token: str = "", **more: Any) -> Reply:
        def look() -> list[Reply]:
            assert self._process.poll() is None, Path(self._log.name).read_text()
            return _answers(self.port, path, token, **more)

        return wait_for(look, "an answer from kube-scheduler")[0]

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._log.close()


KUBE = "kube-scheduler-endpoints"


@pytest.fixture
def kube_scheduler(control_plane: ControlPlane, tmp_path: Path) -> Iterator[KubeScheduler]:
    if not control_plane.has("kube-scheduler"):
        pytest.skip("compares with kube-scheduler: put its binary into KUBEBUILDER_ASSETS")
    config = tmp_path / "kube-scheduler.yaml"
    config.write_text(json.dumps(configuration(control_plane.kubeconfig(), KUBE)))
    started = KubeScheduler(control_plane, config)
    try:
        yield started
    finally:
        started.end()


Shape = dict[str, tuple[str, str, frozenset[str], tuple[str, ...]]]


def shape_of(text: str) -> Shape:
    """Of every metric of the scheduler: its type, stability, label names and buckets."""
    families = dict(re.findall(r"^# TYPE (scheduler_\S+) (\S+)$", text, re.MULTILINE))
    levels = dict(re.findall(r"^# HELP (scheduler_\S+) \[(\w+)\]", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    buckets: dict[str, dict[str, None]] = {}
    for name, inside in re.findall(r"^(scheduler_\w+?)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        family = name if name in families else re.sub("_(bucket|sum|count)$", "", name)
        found = dict(re.findall(r'(\w+)="([^"]*)"', inside))
        if "le" in found:
            buckets.setdefault(family, {})[found.pop("le")] = None
        labels.setdefault(family, set()).update(found)
    return {
        name: (kind, levels[name], frozenset(labels.get(name, ())), tuple(buckets.get(name, ())))
        for name, kind in families.items()
        if name in labels
    }


def test_metrics_are_kube_schedulers(
    serving: Serving, kube_scheduler: KubeScheduler, control_plane: ControlPlane, scene: Scene
) -> None:
    scene.node("n", cpu="1")
    for name, scheduler in (("ours", ENDPOINTS), ("theirs", KUBE)):
        scene.pod(name, schedulerName=scheduler)
        scene.pod(f"{name}-large", cpu="8", schedulerName=scheduler)
        scene.pod(f"{name}-gated", schedulerName=scheduler, schedulingGates=[{"name": "example.com/wait"}])
    scene.bound("ours", "theirs")
    for name in ("ours-large", "theirs-large"):
        scene.refused(name, "Insufficient cpu")
    scene.node("another", cpu="2")  # brings them back
    token = control_plane.token
    theirs = shape_of(kube_scheduler.ask("/metrics", token).text)
    ours = shape_of(serving.ask("/metrics", token).text)
    assert len(theirs) > 15
    missing = {name for name in theirs if name not in ours and name not in NOT_OURS}
    assert not missing
    for name in ours.keys() & theirs.keys():
        assert ours[name] == theirs[name], name


NOT_OURS = {
    # of an optimization that Mooring has another form of
    "scheduler_batch_attempts_total",
    "scheduler_batch_cache_flushed_total",
    "scheduler_get_node_hint_duration_seconds",
    "scheduler_store_schedule_results_duration_seconds",
}


def test_feature_gates_are_kube_schedulers(
    serving: Serving, kube_scheduler: KubeScheduler, control_plane: ControlPlane
) -> None:
    def gates(text: str) -> dict[str, float]:
        found = re.findall(r"^(kubernetes_feature_enabled.*) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}

    ours, theirs = (each.ask("/metrics", control_plane.token).text for each in (serving, kube_scheduler))
    assert gates(ours) == gates(theirs)
    assert len(gates(ours)) > 200


def test_health_and_configuration_are_kube_schedulers(
    serving: Serving, kube_scheduler: KubeScheduler, control_plane: ControlPlane
) -> None:
    wait_for(lambda: kube_scheduler.ask("/readyz").status == 200, "kube-scheduler is ready")
    token = control_plane.token
    for path in (
        *("/healthz", "/livez", "/readyz", "/healthz?verbose", "/livez?verbose", "/readyz?verbose"),
        "/readyz?verbose&exclude=shutdown&exclude=b&exclude=a",
        *("/readyz/shutdown", "/livez/ping", "/readyz/sched-handler-sync"),
    ):
        ours, theirs = serving.ask(path, token), kube_scheduler.ask(path, token)
        assert (ours.status, ours.body) == (theirs.status, theirs.body), path
        for header in ("content-type", "cache-control", "x-content-type-options"):
            assert ours.headers.get(header) == theirs.headers.get(header), (path, header)
    ours, theirs = (each.ask("/configz", token) for each in (serving, kube_scheduler))
    assert _told(ours.json) == _told(theirs.json)
    ours, theirs = (each.ask("/metrics", "no-such-token") for each in (serving, kube_scheduler))
    assert (ours.status, ours.json) == (theirs.status, theirs.json)


def test_refusals_are_kube_schedulers(serving: Serving, kube_scheduler: KubeScheduler, scene: Scene) -> None:
    token = Reader(scene, "stranger").token
    ours, theirs = (each.ask("/metrics", token) for each in (serving, kube_scheduler))
    assert (ours.status, ours.json) == (theirs.status, theirs.json)


def _told(served: Any) -> Any:
    """A configuration without what differs between two schedulers of one cluster, and without what says
    nothing: kube-scheduler leaves lists out that are empty, and switches that are off."""
    config = _filled(served["componentconfig"])
    config["clientConnection"].pop("kubeconfig")
    for profile in config["profiles"]:
        profile.pop("schedulerName")
    return config


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        filled = {key: _filled(item) for key, item in value.items()}
        return {key: item for key, item in filled.items() if item not in ([], {}, False)}
    return [_filled(item) for item in value] if isinstance(value, list) else value
