"""Services: which addresses and ports they get, keep and give back."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.strategies.service_strategy import ADDRESSES, NODE_PORTS
from tests.sandbox.apiserver.kit import Direct

PORTS = [{"port": 80}]
Tree = dict[str, Any]


def make(direct: Direct, name: str, **spec: Any) -> Tree:
    body = {"metadata": {"name": name}, "spec": {"ports": PORTS, **spec}}
    made: Tree = direct.tree("create", "services", body=body)["spec"]
    return made


def change(direct: Direct, name: str, **spec: Any) -> Tree:
    patch = "application/merge-patch+json"
    made: Tree = direct.tree("patch", "services", name, {"spec": spec}, content_type=patch)["spec"]
    return made


def refusal(direct: Direct, name: str, **spec: Any) -> str:
    with pytest.raises(ApiError) as caught:
        make(direct, name, **spec)
    assert caught.value.code == 422
    return caught.value.message


def test_addresses_come_from_the_range_but_not_from_its_beginning(direct: Direct) -> None:
    """That part is for those who ask for a certain address, so that they seldom find it taken."""
    found = [ipaddress.ip_address(make(direct, f"s{number}")["clusterIP"]) for number in range(5)]
    assert all(one in ADDRESSES and int(one) - int(ADDRESSES[0]) >= 256 for one in found)
    assert len(set(found)) == 5


def test_an_address_may_be_asked_for(direct: Direct) -> None:
    assert make(direct, "a", clusterIP="10.96.0.10")["clusterIPs"] == ["10.96.0.10"]
    assert "provided IP is already allocated" in refusal(direct, "b", clusterIP="10.96.0.10")
    assert "does not match the current range" in refusal(direct, "b", clusterIP="10.97.0.1")
    assert "clusterIP" in refusal(direct, "b", clusterIP="here")
    direct.ask("delete", "services", "a")
    make(direct, "b", clusterIP="10.96.0.10")


def test_services_without_an_address(direct: Direct) -> None:
    assert make(direct, "headless", clusterIP="None", selector={"a": "b"})["clusterIPs"] == ["None"]
    assert "clusterIP" not in make(direct, "name", type="ExternalName", externalName="example.com")


def test_an_address_stays_whatever_else_changes(direct: Direct) -> None:
    address = make(direct, "a")["clusterIP"]
    assert change(direct, "a", selector={"a": "b"})["clusterIP"] == address
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 81}]}}
    replaced = direct.tree("update", "services", "a", body)["spec"]
    assert (replaced["clusterIP"], replaced["clusterIPs"]) == (address, [address])
    with pytest.raises(ApiError) as caught:
        change(direct, "a", clusterIP="10.96.9.9")
    assert "may not change once set" in caught.value.message
    gone = change(direct, "a", type="ExternalName", externalName="example.com")
    assert "clusterIP" not in gone
    make(direct, "b", clusterIP=address)


def test_ports_on_nodes(direct: Direct) -> None:
    first = make(direct, "a", type="NodePort")["ports"][0]["nodePort"]
    assert first in NODE_PORTS
    assert "already allocated" in refusal(
        direct, "b", type="NodePort", ports=[{"port": 1, "nodePort": first}]
    )
    assert "not in the valid range" in refusal(
        direct, "b", type="NodePort", ports=[{"port": 1, "nodePort": 80}]
    )
    body = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": PORTS}}
    assert direct.tree("update", "services", "a", body)["spec"]["ports"][0]["nodePort"] == first
    assert "nodePort" not in change(direct, "a", type="ClusterIP")["ports"][0]
    make(direct, "b", type="LoadBalancer", ports=[{"port": 1, "nodePort": first}])


def test_two_protocols_of_one_port_share_it_on_nodes(direct: Direct) -> None:
    ports = [{"name": one, "port": 53, "protocol": one.upper()} for one in ("tcp", "udp")]
    made = make(direct, "dns", type="NodePort", ports=ports)["ports"]
    assert made[0]["nodePort"] == made[1]["nodePort"]


def test_a_load_balancer_may_do_without_ports_on_nodes(direct: Direct) -> None:
    made = make(direct, "a", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in made["ports"][0]
