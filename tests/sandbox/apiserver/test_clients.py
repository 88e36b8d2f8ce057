"""Clients that others wrote: the official Python client and lightkube do here what they do on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import yaml

from tests.sandbox.apiserver.kit import Running

NAMESPACE = "default"
CONTAINERS = [{"name": "c", "image": "i"}]


@pytest.fixture(scope="module")
def official(server: Running) -> Iterator[Any]:
    kubernetes = pytest.importorskip("kubernetes", reason="the kubernetes client is not installed")
    with kubernetes.config.new_client_from_config(str(server.server.kubeconfig)) as client:
        yield client


@pytest.fixture(scope="module")
def light(server: Running) -> Iterator[Any]:
    lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed")
    tree = yaml.safe_load(server.server.kubeconfig.read_text())
    with lightkube.Client(config=lightkube.KubeConfig.from_dict(tree), namespace=NAMESPACE) as client:
        yield client


# ---- kubernetes -----------------------------------------------------------------------------------


def test_official_create_read_update_delete(official: Any) -> None:
    client: Any = import_module("kubernetes.client")
    core = client.CoreV1Api(official)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="crud", labels={"a": "b"}), data={"k": "1"})
    made = core.create_namespaced_config_map(NAMESPACE, body)
    assert made.metadata.uid
    assert made.metadata.creation_timestamp is not None
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="a=b")
    assert [one.metadata.name for one in listed.items] == ["crud"]
    made.data = {"k": "2"}
    replaced = core.replace_namespaced_config_map("crud", NAMESPACE, made)
    assert (replaced.data, replaced.metadata.uid) == ({"k": "2"}, made.metadata.uid)
    with pytest.raises(client.ApiException) as stale:
        core.replace_namespaced_config_map("crud", NAMESPACE, made)
    assert stale.value.status == 409
    core.delete_namespaced_config_map("crud", NAMESPACE)
    with pytest.raises(client.ApiException) as gone:
        core.read_namespaced_config_map("crud", NAMESPACE)
    assert gone.value.status == 404


def test_official_patches(official: Any) -> None:
    client: Any = import_module("kubernetes.client")
    apps = client.AppsV1Api(official)
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    apps.create_namespaced_deployment(NAMESPACE, {"metadata": {"name": "w"}, "spec": spec})
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}
    merged = apps.patch_namespaced_deployment("w", NAMESPACE, side)
    assert {one.name for one in merged.spec.template.spec.containers} == {"c", "side"}  # by merge key
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    assert apps.patch_namespaced_deployment("w", NAMESPACE, operations).spec.replicas == 3
    scale = apps.patch_namespaced_deployment_scale("w", NAMESPACE, {"spec": {"replicas": 5}})
    assert scale.spec.replicas == 5
    assert apps.read_namespaced_deployment("w", NAMESPACE).metadata.generation == 4


def test_official_binding_status_and_eviction(official: Any) -> None:
    client: Any = import_module("kubernetes.client")
    core = client.CoreV1Api(official)
    core.create_node({"metadata": {"name": "node"}})
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
    target = client.V1ObjectReference(kind="Node", name="node")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=target)
    core.create_namespaced_pod_binding("p", NAMESPACE, binding, _preload_content=False)
    running = core.patch_namespaced_pod_status("p", NAMESPACE, {"status": {"phase": "Running"}})
    assert (running.spec.node_name, running.status.phase) == ("node", "Running")
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
    core.create_namespaced_pod_eviction("p", NAMESPACE, eviction)
    assert core.read_namespaced_pod("p", NAMESPACE).metadata.deletion_timestamp is not None


def test_official_watch(official: Any) -> None:
    client: Any = import_module("kubernetes.client")
    watch: Any = import_module("kubernetes.watch")
    core = client.CoreV1Api(official)
    version = core.list_namespaced_secret(NAMESPACE).metadata.resource_version
    core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "seen"}, "stringData": {"k": "v"}})
    core.patch_namespaced_secret("seen", NAMESPACE, {"metadata": {"labels": {"x": "y"}}})
    core.delete_namespaced_secret("seen", NAMESPACE)
    stream = watch.Watch().stream(
        core.list_namespaced_secret, NAMESPACE, resource_version=version, timeout_seconds=1
    )
    seen = [(event["type"], event["object"].metadata.name) for event in stream]
    assert seen == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]


def test_official_dynamic_client_applies(official: Any) -> None:
    """It finds resources by discovery, and applies on the server's side."""
    dynamic: Any = import_module("kubernetes.dynamic")
    maps = dynamic.DynamicClient(official).resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "1"}}
    applied = maps.server_side_apply(body=body, namespace=NAMESPACE, field_manager="one")
    assert [entry.manager for entry in applied.metadata.managedFields] == ["one"]
    changed = {**body, "data": {"k": "2"}}
    with pytest.raises(dynamic.exceptions.ConflictError):
        maps.server_side_apply(body=changed, namespace=NAMESPACE, field_manager="two")


# ---- lightkube ------------------------------------------------------------------------------------


def test_light_create_read_update_delete(light: Any) -> None:
    from lightkube.core.exceptions import ApiError
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    made = light.create(ConfigMap(metadata=ObjectMeta(name="light", labels={"l": "k"}), data={"k": "1"}))
    assert [one.metadata.name for one in light.list(ConfigMap, labels={"l": "k"})] == ["light"]
    made.data = {"k": "2"}
    assert light.replace(made).data == {"k": "2"}
    with pytest.raises(ApiError) as stale:
        light.replace(made)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    light.delete(ConfigMap, "light")
    with pytest.raises(ApiError) as gone:
        light.get(ConfigMap, "light")
    assert (gone.value.status.code, gone.value.status.reason) == (404, "NotFound")


def test_light_patches(light: Any) -> None:
    from lightkube.resources.core_v1 import Node
    from lightkube.types import PatchType

    light.create(Node.from_dict({"metadata": {"name": "light"}}))
    assert light.patch(Node, "light", {"spec": {"unschedulable": True}}).spec.unschedulable
    labelled = {"metadata": {"labels": {"zone": "a"}}}
    merged = light.patch(Node, "light", labelled, patch_type=PatchType.MERGE)
    assert merged.metadata.labels == {"zone": "a"}
    operations = [{"op": "remove", "path": "/spec/unschedulable"}]
    assert not light.patch(Node, "light", operations, patch_type=PatchType.JSON).spec.unschedulable
    wanted = {"metadata": {"name": "light", "labels": {"rack": "1"}}}
    applied = light.apply(Node.from_dict(wanted), field_manager="m")
    assert applied.metadata.labels == {"zone": "a", "rack": "1"}
    assert "m" in {entry.manager for entry in applied.metadata.managedFields}


def test_light_watch(light: Any) -> None:
    from lightkube.resources.core_v1 import ServiceAccount

    listed = light.list(ServiceAccount)
    list(listed)
    version = listed.resourceVersion
    light.create(ServiceAccount.from_dict({"metadata": {"name": "seen"}}))
    light.patch(ServiceAccount, "seen", {"metadata": {"labels": {"x": "y"}}})
    light.delete(ServiceAccount, "seen")
    seen = []
    for type, account in light.watch(ServiceAccount, resource_version=version):
        seen.append((type, account.metadata.name))
        if type == "DELETED":
            break
    assert seen == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]


def test_light_pages_of_a_list(light: Any) -> None:
    from lightkube.resources.core_v1 import Endpoints, Event, Secret

    assert list(light.list(Event)) == []
    assert [one.metadata.name for one in light.list(Endpoints)] == ["kubernetes"]
    for number in range(5):
        light.create(Secret.from_dict({"metadata": {"name": f"page-{number}"}}))
    names = [one.metadata.name for one in light.list(Secret, chunk_size=2)]
    assert [name for name in names if name.startswith("page-")] == [f"page-{number}" for number in range(5)]
