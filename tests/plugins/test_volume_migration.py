"""CSI migration: what an in-tree volume is to the driver that replaced its plugin."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.objects import Volume
from mooring.plugins.volumes.migration import (
    MigrationError,
    inline_handle,
    migrated_affinity,
    plugin_named,
    plugin_of,
    volume_handle,
)
from tests.plugins.volume_kit import volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
GKE_ZONE = "topology.gke.io/zone"
GCE = {"gcePersistentDisk": {"pdName": "disk"}}


def handle(labels: dict[str, str], **source: Any) -> str:
    made = volume("pv", meta={"labels": labels}, **source)
    plugin = plugin_of(made.spec)
    assert plugin is not None
    return volume_handle(made, plugin)


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({BETA_ZONE: "us-east1-c", ZONE: "us-east1-b"}, "zones/us-east1-c"),
        ({ZONE: "us-east1-b__us-east1-c"}, "regions/us-east1"),
    ],
)
def test_gce_handles_name_the_zone(labels: dict[str, str], place: str) -> None:
    assert handle(labels, **GCE) == f"projects/UNSPECIFIED/{place}/disks/disk"


@pytest.mark.parametrize("zones", ["a__b", "us-east1-b__us-west1-b"])
def test_gce_regions_must_be_clear(zones: str) -> None:
    with pytest.raises(MigrationError, match="failed to get region from zones"):
        handle({ZONE: zones}, **GCE)


@pytest.mark.parametrize(
    ("written", "bare"),
    [
        ("vol-1", "vol-1"),
        ("anything", "anything"),
        ("aws://us-east-1a/vol-1", "vol-1"),
        ("aws:///vol-1", "vol-1"),
        ("aws://us-east-1a/disk", None),
        ("aws://us-east-1a/vol-1/x", None),
    ],
)
def test_ebs_handles(written: str, bare: str | None) -> None:
    source = {"awsElasticBlockStore": {"volumeID": written}}
    if bare is not None:
        assert handle({}, **source) == bare
        return
    with pytest.raises(MigrationError, match=r"Invalid format for AWS volume \(aws://"):
        handle({}, **source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
        ({"cinder": {"volumeID": "c"}}, "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "p"),
        ({"azureDisk": {"diskName": "n", "diskURI": "/subscriptions/x"}}, "/subscriptions/x"),
    ],
)
def test_inline_handles(source: dict[str, Any], expected: str) -> None:
    inline = msgspec.convert({"name": "v", **source}, Volume)
    plugin = plugin_of(inline)
    assert plugin is not None
    assert inline_handle(inline, plugin) == expected


def test_plugins_by_provisioner() -> None:
    found = plugin_named("kubernetes.io/gce-pd")
    assert found is not None
    assert found.driver == "pd.csi.storage.gke.io"
    assert plugin_named("csi.example.com") is None
    assert plugin_of(volume("pv", csi={"driver": "d", "volumeHandle": "h"}).spec) is None


# ---- topology


def translated(
    labels: dict[str, str], on: dict[str, list[str]] | None, source: dict[str, Any] | None = None
) -> list[dict[str, list[str]]] | None:
    """The labels that the migrated volume requires of nodes, by term; None where it requires none."""
    made = volume("pv", on=on, meta={"labels": labels}, **(GCE if source is None else source))
    plugin = plugin_of(made.spec)
    assert plugin is not None
    affinity = migrated_affinity(made, plugin)
    if affinity is None or affinity.required is None:
        return None
    return [{e.key: e.values for e in t.match_expressions} for t in affinity.required.node_selector_terms]


@pytest.mark.parametrize(
    ("labels", "on", "expected"),
    [
        ({}, None, None),
        ({}, {ZONE: ["a-b-c"]}, [{GKE_ZONE: ["a-b-c"]}]),
        ({}, {BETA_ZONE: ["a-b-c"]}, [{GKE_ZONE: ["a-b-c"]}]),
        ({ZONE: "a-b-c"}, None, [{GKE_ZONE: ["a-b-c"]}]),
        ({ZONE: "a-b-d__a-b-c"}, None, [{GKE_ZONE: ["a-b-c", "a-b-d"]}]),
        ({ZONE: "a-b-c"}, {"rack": ["1"]}, [{"rack": ["1"], GKE_ZONE: ["a-b-c"]}]),
        # The affinity's zone is preferred to the label's, and a beta region goes with a beta zone only.
        ({ZONE: "a-b-c"}, {BETA_ZONE: ["x"]}, [{GKE_ZONE: ["x"]}]),
        ({}, {BETA_ZONE: ["x"], BETA_REGION: ["r"]}, [{GKE_ZONE: ["x"], REGION: ["r"]}]),
        ({}, {ZONE: ["x"], BETA_REGION: ["r"]}, [{GKE_ZONE: ["x"], BETA_REGION: ["r"]}]),
        ({}, {"rack": ["1"]}, [{"rack": ["1"]}]),
    ],
)
def test_zones_become_the_drivers(
    labels: dict[str, str], on: dict[str, list[str]] | None, expected: list[dict[str, list[str]]] | None
) -> None:
    assert translated(labels, on) == expected


def test_drivers_without_zones_keep_the_affinity() -> None:
    azure = {"azureDisk": {"diskName": "n", "diskURI": "u"}}
    assert translated({ZONE: "a"}, {ZONE: ["a"]}, azure) == [{ZONE: ["a"]}]
    assert translated({ZONE: "a"}, None, azure) is None
