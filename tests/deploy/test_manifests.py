"""The manifests of deploy/ fit together, run what there is to run, and keep to what is promised."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring import __version__
from mooring.cli.scheduler import scheduler
from mooring.config import loads, loads_and_resolve
from mooring.core.build import registry_with
from tests.deploy.manifests import DEPLOY, OVERLAYS, ROOT, Manifests, render

LABELS = {"app.kubernetes.io/name": "mooring", "app.kubernetes.io/component": "scheduler"}


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> tuple[str, Manifests]:
    return request.param, render(DEPLOY / "overlays" / request.param)


@pytest.fixture
def manifests(overlay: tuple[str, Manifests]) -> Manifests:
    return overlay[1]


def test_the_overlays() -> None:
    assert OVERLAYS == ["instead-of-kube-scheduler", "second-scheduler", "with-plugin"]


# ---- references


def check_references(manifests: Manifests) -> None:
    """Every account, role, ConfigMap and pod that a manifest names is one of them."""
    account = manifests.only("ServiceAccount")["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    roles = {(kind, r["metadata"]["name"]) for kind in ("Role", "ClusterRole") for r in manifests.of(kind)}
    roles.add(("ClusterRole", "system:auth-delegator"))
    for binding in manifests.of("RoleBinding") + manifests.of("ClusterRoleBinding"):
        assert binding["subjects"] == [subject]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
    assert manifests.pod_spec()["serviceAccountName"] == account["name"]
    assert "scheduler.yaml" in manifests.mounted("/etc/mooring")
    deployment = manifests.only("Deployment")["spec"]
    assert deployment["template"]["metadata"]["labels"] == LABELS
    assert deployment["selector"]["matchLabels"] == LABELS
    assert manifests.only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == LABELS
    assert manifests.only("Service")["spec"]["selector"] == LABELS


def check_lease(manifests: Manifests) -> None:
    """The lease that the configuration names is the one that the Role allows, where the flag says."""
    role = manifests.only("Role")
    (named,) = (rule for rule in role["rules"] if "resourceNames" in rule)
    election = loads(manifests.mounted("/etc/mooring")["scheduler.yaml"]).config.leader_election
    assert named["resourceNames"] == [election.resource_name]
    assert election.leader_elect
    assert "--leader-elect-resource-namespace=$(POD_NAMESPACE)" in manifests.container()["args"]
    (namespace,) = (e for e in manifests.container()["env"] if e["name"] == "POD_NAMESPACE")
    assert namespace["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
    deployment = manifests.only("Deployment")
    assert role["metadata"]["namespace"] == deployment["metadata"]["namespace"]


def test_references(manifests: Manifests) -> None:
    check_references(manifests)


def test_the_lease(manifests: Manifests) -> None:
    check_lease(manifests)


def test_a_second_installation_elsewhere(tmp_path: Path) -> None:
    base = os.path.relpath(DEPLOY / "overlays" / "second-scheduler", tmp_path.resolve())
    kustomization = {"namespace": "team-a", "namePrefix": "a-", "resources": [base]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    moved, first = render(tmp_path), render(DEPLOY / "overlays" / "second-scheduler")
    check_references(moved)
    check_lease(moved)
    assert {m["metadata"].get("namespace", "team-a") for m in moved} == {"team-a"}
    names = [{(m["kind"], m["metadata"]["name"]) for m in each} for each in (moved, first)]
    assert not names[0] & names[1]  # neither overwrites anything of the other


# ---- configuration


def test_who_schedules_which_pods(overlay: tuple[str, Manifests]) -> None:
    name, manifests = overlay
    (profile,) = loads(manifests.mounted("/etc/mooring")["scheduler.yaml"]).config.profiles
    expected = {"instead-of-kube-scheduler": "default-scheduler"}
    assert profile.scheduler_name == expected.get(name, "mooring")


def test_instead_of_kube_scheduler_takes_its_lease() -> None:
    manifests = render(DEPLOY / "overlays" / "instead-of-kube-scheduler")
    config = loads(manifests.mounted("/etc/mooring")["scheduler.yaml"]).config
    place = (manifests.only("Deployment")["metadata"]["namespace"], config.leader_election.resource_name)
    assert place == ("kube-system", "kube-scheduler")
    assert manifests.pod_spec()["priorityClassName"] == "system-cluster-critical"


def test_the_flags_are_those_of_the_command(manifests: Manifests) -> None:
    check_flags(manifests.container()["args"])


def check_flags(args: list[str]) -> None:
    command, *flags = args
    assert command == "scheduler"
    with scheduler.make_context("scheduler", list(flags)):
        pass


def test_the_plugin_of_the_configmap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = render(DEPLOY / "overlays" / "with-plugin")
    (pythonpath,) = (e["value"] for e in manifests.container()["env"] if e["name"] == "PYTHONPATH")
    files = manifests.mounted(pythonpath)
    assert files == {"gpu_pack.py": (ROOT / "examples" / "plugins" / "gpu_pack.py").read_text()}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    (path,) = (a.partition("=")[2] for a in manifests.container()["args"] if a.startswith("--plugin="))
    registry = registry_with()
    registry.register_path(path)
    _, (profile,) = loads_and_resolve(manifests.mounted("/etc/mooring")["scheduler.yaml"], registry)
    assert "GpuPack" in profile.points["score"]


# ---- the pod


def test_the_pod_may_do_little(manifests: Manifests) -> None:
    spec, container = manifests.pod_spec(), manifests.container()
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [mount for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == [{"name": "tmp", "mountPath": "/tmp"}]
    (tmp,) = (volume for volume in spec["volumes"] if volume["name"] == "tmp")
    assert tmp["emptyDir"]["medium"] == "Memory"
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_the_replicas_survive_each_other(manifests: Manifests) -> None:
    deployment = manifests.only("Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert manifests.only("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    apart = manifests.pod_spec()["topologySpreadConstraints"][0]
    assert (apart["topologyKey"], apart["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")
    assert apart["labelSelector"]["matchLabels"] == LABELS


def check_probes(container: dict[str, Any], port: object) -> None:
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        get = container[probe]["httpGet"]
        assert (get["scheme"], get["path"], get["port"]) == ("HTTPS", path, port)


def test_the_probes_ask_the_secure_port(manifests: Manifests) -> None:
    container = manifests.container()
    assert container["ports"] == [{"name": "https-metrics", "containerPort": 10259}]
    check_probes(container, "https-metrics")
    (port,) = manifests.only("Service")["spec"]["ports"]
    assert port["targetPort"] == "https-metrics"


def test_the_image_is_of_this_version(manifests: Manifests) -> None:
    assert manifests.container()["image"] == f"mooring:{__version__}"


# ---- the static pod


def test_the_static_pod() -> None:
    pod = yaml.safe_load((DEPLOY / "static-pod" / "mooring.yaml").read_text())
    (container,) = pod["spec"]["containers"]
    check_flags(container["args"])
    check_probes(container, 10259)
    assert container["image"] == f"mooring:{__version__}"
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts.pop("/tmp")["emptyDir"]["medium"] == "Memory"
    assert all(path == volume["hostPath"]["path"] for path, volume in mounts.items())
    config = loads((DEPLOY / "static-pod" / "scheduler.yaml").read_text()).config
    assert config.client_connection.kubeconfig in mounts
    lease = config.leader_election
    assert (lease.resource_namespace, lease.resource_name) == ("kube-system", "kube-scheduler")
