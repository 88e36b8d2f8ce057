"""IPAddresses follow Services, and APIServices follow what is served."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.derived import follow_services
from tests.sandbox.apiserver.kit import Direct

NETWORKING, REGISTRATION = "networking.k8s.io", "apiregistration.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"


def service(direct: Direct, name: str, **spec: Any) -> str:
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    address: str = direct.tree("create", "services", body=body)["spec"].get("clusterIP", "")
    return address


def addresses(direct: Direct) -> dict[str, str]:
    """Return the names of Services by their addresses."""
    items = direct.tree("list", "ipaddresses", group=NETWORKING)["items"]
    return {item["metadata"]["name"]: item["spec"]["parentRef"]["name"] for item in items}


def test_a_service_has_an_address_as_long_as_it_exists(direct: Direct) -> None:
    address = service(direct, "web")
    service(direct, "headless", clusterIP="None")
    service(direct, "outside", type="ExternalName", externalName="example.com")
    assert addresses(direct) == {"10.96.0.1": "kubernetes", address: "web"}
    one = direct.tree("get", "ipaddresses", address, group=NETWORKING)
    assert one["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert one["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "web"}
    merge = "application/merge-patch+json"
    outside = {"spec": {"type": "ExternalName", "externalName": "a.example.com", "clusterIP": None}}
    direct.ask("patch", "services", "web", outside, content_type=merge)
    assert addresses(direct) == {"10.96.0.1": "kubernetes"}
    direct.ask("patch", "services", "web", {"spec": {"type": "ClusterIP"}}, content_type=merge)
    assert "web" in addresses(direct).values()
    direct.ask("delete", "services", "web")
    assert addresses(direct) == {"10.96.0.1": "kubernetes"}


def test_services_of_an_older_data_directory_get_theirs(direct: Direct) -> None:
    direct.ask("delete", "ipaddresses", "10.96.0.1", group=NETWORKING)
    follow_services(direct.api)
    assert addresses(direct) == {"10.96.0.1": "kubernetes"}


def test_an_address_of_someone_else_is_not_allocated(direct: Direct) -> None:
    parent = {"resource": "services", "namespace": "default", "name": "other"}
    body = {"metadata": {"name": "10.96.5.5"}, "spec": {"parentRef": parent}}
    direct.ask("create", "ipaddresses", body=body, group=NETWORKING)
    with pytest.raises(
        ApiError, match=r"failed to allocate IP 10\.96\.5\.5: provided IP is already allocated"
    ):
        service(direct, "web", clusterIP="10.96.5.5")


def api_services(direct: Direct) -> dict[str, Any]:
    items = direct.tree("list", "apiservices", group=REGISTRATION)["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_what_is_built_in_has_api_services(direct: Direct) -> None:
    all_of_them = api_services(direct)
    assert {"v1.", "v1.apps", "v2.autoscaling", "v1.resource.k8s.io"} <= set(all_of_them)
    assert f"v1.{REGISTRATION}" not in all_of_them
    assert all_of_them["v1."]["spec"] == {
        "version": "v1",
        "groupPriorityMinimum": 18000,
        "versionPriority": 1,
    }
    apps = all_of_them["v1.apps"]
    assert apps["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert apps["spec"] == {
        "group": "apps",
        "version": "v1",
        "groupPriorityMinimum": 17800,
        "versionPriority": 15,
    }
    condition = apps["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")


def test_definitions_have_api_services(direct: Direct) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": versions,
    }
    body = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    direct.ask("create", "customresourcedefinitions", body=body, group=EXTENSIONS)
    one = api_services(direct)["v1.example.com"]
    assert one["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert (one["spec"]["groupPriorityMinimum"], one["spec"]["versionPriority"]) == (1000, 100)

    versions[1]["served"] = False
    direct.ask("patch", "customresourcedefinitions", "widgets.example.com", {"spec": {"versions": versions}},
               group=EXTENSIONS, content_type="application/merge-patch+json")  # fmt: skip
    assert [name for name in api_services(direct) if name.endswith("example.com")] == ["v1.example.com"]
    direct.ask("delete", "customresourcedefinitions", "widgets.example.com", group=EXTENSIONS)
    assert not [name for name in api_services(direct) if name.endswith("example.com")]
