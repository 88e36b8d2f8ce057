"""Namespaces: emptied before they go, and furnished with a ServiceAccount."""

from __future__ import annotations

import pytest

from mooring.api.kinds import ApiResource
from mooring.client.api_errors import ApiError
from mooring.sandbox.controllers.every_namespace import RootCertificates, ServiceAccounts
from mooring.sandbox.controllers.namespace import NamespaceController
from tests.sandbox.controllers.kit import Embedded, Tree, Whole, play, template
from tests.sandbox.controllers.test_garbage_collector import CRDS, WIDGETS, definition


def config_map(name: str, *finalizers: str) -> Tree:
    metadata = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def begin(stage: Embedded) -> None:
    await stage.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}})
    stage.namespace = "gone"
    await stage.rest()


async def conditions(stage: Embedded) -> dict[str, str]:
    found = (await stage.get("namespaces", "gone"))["status"]["conditions"]
    return {one["type"]: one["message"] for one in found if one["status"] == "True"}


async def exists(stage: Embedded) -> bool:
    return "gone" in [one["metadata"]["name"] for one in await stage.all("namespaces")]


def test_content_of_all_kinds_goes_and_then_the_namespace() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await stage.cluster.create(CRDS, definition())
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        await stage.cluster.create(WIDGETS, widget, "gone")
        await stage.cluster.create(WIDGETS, widget, "default")
        await stage.create(config_map("one"))
        await stage.create(config_map("one"), "default")
        await stage.delete("namespaces", "gone")
        await stage.advance(4)
        assert (await stage.get("namespaces", "gone"))["status"]["phase"] == "Terminating"
        assert len(await stage.all("configmaps")) == 1  # other API servers may not know of it yet
        await stage.advance(2)
        assert not await exists(stage)
        assert [one.namespace for one in (await stage.cluster.list(WIDGETS)).items] == ["default"]
        stage.namespace = "default"
        assert [one["metadata"]["name"] for one in await stage.all("configmaps")] == ["one"]

    play(scene, NamespaceController, ServiceAccounts)


def test_pods_end_in_their_own_time_before_the_rest_goes() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await stage.create({"apiVersion": "v1", "kind": "Pod", **template("app"), "metadata": {"name": "p"}})
        await stage.bind("p", "n1")
        await stage.create(config_map("needed"))
        await stage.delete("namespaces", "gone")
        await stage.advance(6)
        assert (await stage.get("pods", "p"))["metadata"]["deletionTimestamp"]
        assert len(await stage.all("configmaps")) == 1
        assert await conditions(stage) == {}
        found = (await stage.get("namespaces", "gone"))["status"]["conditions"]
        assert [one["reason"] for one in found] == [
            "ResourcesDiscovered", "ParsedGroupVersions", "ContentDeleted", "ContentRemoved",
            "ContentHasNoFinalizers",
        ]  # fmt: skip
        await stage.delete("pods", "p", grace=0)
        await stage.rest()
        assert not await exists(stage)

    play(scene, NamespaceController)


def test_finalizers_hold_it_and_are_told() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await stage.create(config_map("held", "example.com/hold"))
        await stage.delete("namespaces", "gone")
        await stage.advance(100)
        assert await conditions(stage) == {
            "NamespaceContentRemaining": "Some resources are remaining: configmaps. has 1 resource instances",
            "NamespaceFinalizersRemaining": (
                "Some content in the namespace has finalizers remaining: "
                "example.com/hold in 1 resource instances"
            ),
        }
        await stage.patch("configmaps", "held", {"metadata": {"finalizers": None}})
        await stage.advance(15)
        assert not await exists(stage)

    play(scene, NamespaceController)


def test_other_finalizers_of_a_namespace_are_left_to_others() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        body = {"metadata": {"name": "gone"}, "spec": {"finalizers": ["kubernetes", "example.com/mine"]}}
        namespaces = ApiResource("", "v1", "namespaces", False, Whole)
        await stage.cluster.update(namespaces, "gone", body, subresource="finalize")
        await stage.create(config_map("one"))
        await stage.delete("namespaces", "gone")
        await stage.advance(60)
        assert (await stage.get("namespaces", "gone"))["spec"]["finalizers"] == ["example.com/mine"]
        assert await stage.all("configmaps") == []

    play(scene, NamespaceController)


def test_every_namespace_has_an_account() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        await stage.get("serviceaccounts", "default")
        await stage.delete("serviceaccounts", "default")
        await stage.rest()
        await stage.get("serviceaccounts", "default")
        await stage.delete("namespaces", "gone")
        await stage.advance(60)
        with pytest.raises(ApiError, match="not found"):
            await stage.get("serviceaccounts", "default")
        stage.namespace = "kube-system"
        await stage.get("serviceaccounts", "default")

    play(scene, NamespaceController, ServiceAccounts)


def test_every_namespace_has_the_certificate_of_the_api_server() -> None:
    async def scene(stage: Embedded) -> None:
        await begin(stage)
        made = await stage.get("configmaps", "kube-root-ca.crt")
        assert made["data"] == {"ca.crt": "PEM"}
        assert made["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")
        await stage.patch("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "mine"}})
        await stage.rest()
        restored = await stage.get("configmaps", "kube-root-ca.crt")
        assert restored["data"] == {"ca.crt": "PEM"}
        await stage.advance(60)
        assert await stage.get("configmaps", "kube-root-ca.crt") == restored
        await stage.delete("configmaps", "kube-root-ca.crt")
        await stage.rest()
        assert (await stage.get("configmaps", "kube-root-ca.crt"))["data"] == {"ca.crt": "PEM"}
        await stage.delete("namespaces", "gone")
        await stage.advance(60)
        assert not await exists(stage)

    play(scene, NamespaceController, lambda context: RootCertificates(context, "PEM"))
