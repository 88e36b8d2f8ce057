"""What is in a new cluster, and the addresses and ports that services get in it."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.bootstrap import (
    bootstrap,
    bootstrap_roles,
    publish_address,
    publish_components,
)
from mooring.sandbox.apiserver.strategies.service_strategy import ADDRESSES, NODE_PORTS
from tests.sandbox.apiserver.kit import Direct

Tree = dict[str, Any]


def names(direct: Direct, plural: str, **where: Any) -> list[str]:
    return [item["metadata"]["name"] for item in direct.tree("list", plural, **where)["items"]]


def test_a_new_cluster_is_not_empty(direct: Direct) -> None:
    assert names(direct, "namespaces") == ["default", "kube-node-lease", "kube-public", "kube-system"]
    classes = direct.tree("list", "priorityclasses", group="scheduling.k8s.io")["items"]
    assert {one["metadata"]["name"]: one["value"] for one in classes} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    service = direct.tree("get", "services", "kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}


def test_the_range_of_addresses_and_single_ones_are_objects(direct: Direct) -> None:
    group = "networking.k8s.io"
    cidr = direct.tree("get", "servicecidrs", "kubernetes", group=group)
    assert cidr["spec"]["cidrs"] == [str(ADDRESSES)]
    assert cidr["status"]["conditions"][0]["status"] == "True"
    parent = {"parentRef": {"resource": "services", "name": "a", "namespace": "b"}}
    for name in ("10.1.2.3", "fe80::42"):
        direct.tree("create", "ipaddresses", body={"metadata": {"name": name}, "spec": parent}, group=group)
    for name in ("web", "FE80::42", "fe80::1%eth0", "010.1.2.3"):
        with pytest.raises(ApiError, match=r"metadata\.name"):
            direct.ask(
                "create", "ipaddresses", body={"metadata": {"name": name}, "spec": parent}, group=group
            )


def test_the_roles_that_those_go_by_who_come_over_http(direct: Direct) -> None:
    bootstrap_roles(direct.api)
    group = "rbac.authorization.k8s.io"
    found = names(direct, "clusterroles", group=group)
    assert {"admin", "cluster-admin", "edit", "view", "system:kube-scheduler"} <= set(found)
    role = direct.tree("get", "clusterroles", "system:auth-delegator", group=group)
    assert role["rules"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    for plural in ("clusterrolebindings", "rolebindings"):
        for binding in direct.tree("list", plural, group=group)["items"]:
            kind, namespace = binding["roleRef"]["kind"].lower(), binding["metadata"].get("namespace", "")
            where = "" if kind == "clusterrole" else namespace
            assert direct.tree("get", f"{kind}s", binding["roleRef"]["name"], group=group, namespace=where)


def test_the_service_of_the_api_has_its_current_address(direct: Direct) -> None:
    for host, port in (("127.0.0.1", 6443), ("127.0.0.1", 7443)):  # the port can change with a restart
        publish_address(direct.api, host, port)
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        endpoints = direct.tree("get", "endpoints", "kubernetes")
        assert endpoints["subsets"] == [{"addresses": [{"ip": host}], "ports": ports}]
        made = direct.tree("get", "endpointslices", "kubernetes", group="discovery.k8s.io")
        assert made["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
        assert (made["addressType"], made["ports"]) == ("IPv4", ports)
        assert made["endpoints"] == [{"addresses": [host], "conditions": {"ready": True}}]


def test_the_components_of_a_cluster_are_healthy(direct: Direct) -> None:
    publish_components(direct.api)
    items = direct.tree("list", "componentstatuses")["items"]
    assert [item["metadata"]["name"] for item in items] == ["controller-manager", "etcd-0", "scheduler"]
    assert all(item["conditions"][0]["status"] == "True" for item in items)


def test_what_is_there_stays_as_it_is(direct: Direct) -> None:
    bootstrap_roles(direct.api)
    publish_components(direct.api)
    before = direct.store.version
    bootstrap(direct.api)
    bootstrap_roles(direct.api)
    publish_components(direct.api)
    assert direct.store.version == before


def service(direct: Direct, name: str, **spec: Any) -> Tree:
    spec.setdefault("ports", [{"port": 80}])
    return direct.tree("create", "services", body={"metadata": {"name": name}, "spec": spec})


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "delete"]), max_size=20))
def test_no_two_services_share_an_address_or_a_port(told: list[str]) -> None:
    direct, alive = Direct(), []
    for number, kind in enumerate(told):
        if kind != "delete":
            ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
            alive.append(service(direct, f"s{number}", type=kind, ports=ports)["metadata"]["name"])
        elif alive:
            direct.ask("delete", "services", alive.pop(0))
    specs = [item["spec"] for item in direct.tree("list", "services")["items"]]
    addresses = [spec["clusterIP"] for spec in specs]
    assert len(set(addresses)) == len(specs) == len(alive) + 1
    assert all(ipaddress.ip_address(address) in ADDRESSES for address in addresses)
    node_ports = [port["nodePort"] for spec in specs for port in spec["ports"] if "nodePort" in port]
    assert len(set(node_ports)) == len(node_ports)
    assert all(port in NODE_PORTS for port in node_ports)


def test_what_was_freed_can_be_asked_for(direct: Direct) -> None:
    address = service(direct, "a", clusterIP="10.96.9.9")["spec"]["clusterIP"]
    with pytest.raises(ApiError, match="provided IP is already allocated"):
        service(direct, "b", clusterIP=address)
    direct.ask("delete", "services", "a")
    assert service(direct, "b", clusterIP=address)["spec"]["clusterIP"] == address


def test_a_dry_run_takes_nothing(direct: Direct) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    planned = direct.tree("create", "services", body=body, dryRun="All")["spec"]["clusterIP"]
    assert service(direct, "b")["spec"]["clusterIP"] == planned
