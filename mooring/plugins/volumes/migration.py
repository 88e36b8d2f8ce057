"""CSI migration: in-tree volumes as the CSI drivers that replaced them see them."""

from __future__ import annotations

import re
from typing import NamedTuple

from mooring.api.objects import (
    AWSElasticBlockStore,
    GCEPersistentDisk,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Volume,
)
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from mooring.plugins.volumes.claims import VolumeError

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

_UNSPECIFIED = "UNSPECIFIED"
_EBS_ID = re.compile(r"vol-[^/]*")


class MigrationError(VolumeError):
    """An in-tree volume that has no equivalent for the CSI driver."""


class InTreePlugin(NamedTuple):
    """An in-tree volume plugin and the CSI driver that replaced it."""

    field: str  # of a pod's volume, and of a PersistentVolume's spec
    name: str
    driver: str
    zone_key: str = ""  # the node label that the driver's topology uses in place of the zone
    migrated: bool = True  # whether the scheduler treats such volumes as the driver's


_PLUGINS = (
    InTreePlugin(
        "gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"
    ),
    InTreePlugin(
        "aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
    ),
    InTreePlugin(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    InTreePlugin("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    InTreePlugin("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", migrated=False),
    InTreePlugin("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", migrated=False),
)
_BY_NAME = {plugin.name: plugin for plugin in _PLUGINS}


def plugin_of(source: Volume | PersistentVolumeSpec) -> InTreePlugin | None:
    """The in-tree plugin of a pod's inline volume or of a PersistentVolume; None for any other kind."""
    return next((plugin for plugin in _PLUGINS if getattr(source, plugin.field) is not None), None)


def plugin_named(provisioner: str) -> InTreePlugin | None:
    """The in-tree plugin that a storage class names as its provisioner."""
    return _BY_NAME.get(provisioner)


def migrated_plugins(csi_node: CSINode) -> list[str]:
    """The in-tree plugins whose volumes the node's kubelet hands to CSI drivers."""
    listed = csi_node.metadata.annotations.get(MIGRATED_PLUGINS)
    return listed.split(",") if listed else []


# ---- volume handles -----------------------------------------------------------------------------


def inline_handle(volume: Volume, plugin: InTreePlugin) -> str:
    """What the CSI driver calls a pod's inline volume."""
    if volume.gce_persistent_disk is not None:
        return _gce_handle(volume.gce_persistent_disk, [""])
    return _other_handle(volume, plugin)


def volume_handle(volume: PersistentVolume, plugin: InTreePlugin) -> str:
    """What the CSI driver calls an in-tree PersistentVolume."""
    if volume.spec.gce_persistent_disk is not None:
        labels = volume.metadata.labels
        zones = labels.get(BETA_ZONE) or labels.get(ZONE, "")
        return _gce_handle(volume.spec.gce_persistent_disk, zones.split(ZONE_DELIMITER))
    return _other_handle(volume.spec, plugin)


def _other_handle(source: Volume | PersistentVolumeSpec, plugin: InTreePlugin) -> str:
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store)
    if source.azure_disk is not None:
        return source.azure_disk.disk_uri
    handle: str = getattr(source, plugin.field).volume_id
    return handle


def _gce_handle(disk: GCEPersistentDisk, zones: list[str]) -> str:
    if len(zones) == 1:
        place = f"zones/{zones[0] or _UNSPECIFIED}"
    else:
        place = f"regions/{_gce_region(zones)}"
    return f"projects/{_UNSPECIFIED}/{place}/disks/{disk.pd_name}"


def _gce_region(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            expected = "expected: {locale}-{region}-{zone}"
            raise MigrationError(
                f"failed to get region from zones: zone in unexpected format, {expected}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        shown = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise MigrationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{shown}]"
        )
    return regions.pop()


def _ebs_handle(disk: AWSElasticBlockStore) -> str:
    """The bare id of a volume that may be written as aws://zone/id."""
    full = disk.volume_id
    if not full.startswith("aws://"):
        return full
    _, _, path = re.split("[?#]", full, maxsplit=1)[0].removeprefix("aws://").partition("/")
    bare = path.strip("/")
    if not _EBS_ID.fullmatch(bare):
        raise MigrationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({full})"
        )
    return bare


# ---- topology -----------------------------------------------------------------------------------


def migrated_affinity(volume: PersistentVolume, plugin: InTreePlugin) -> VolumeNodeAffinity | None:
    """The node affinity of an in-tree volume, with zones as the CSI driver's nodes are labelled.

    Zones come from the volume's affinity, or else from its labels. Raises MigrationError for a volume
    that cannot be translated at all.
    """
    volume_handle(volume, plugin)
    affinity = volume.spec.node_affinity
    if not plugin.zone_key:
        return affinity
    required = affinity.required if affinity is not None else None
    terms = required.node_selector_terms if required is not None else []
    zone, region = _topology_labels(terms, volume)
    if _values(terms, zone):
        terms = _renamed(terms, zone, plugin.zone_key)
    elif zones := _label_zones(volume, zone):
        terms = _with_zones(terms, plugin.zone_key, zones)
    elif required is None:
        return affinity
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _topology_labels(terms: list[NodeSelectorTerm], volume: PersistentVolume) -> tuple[str, str]:
    """The zone and region labels the volume speaks of: its affinity's before its own, new before beta."""
    used = {expression.key for term in terms for expression in term.match_expressions}
    for keys in (used, volume.metadata.labels):
        if ZONE in keys:
            return ZONE, REGION
        if BETA_ZONE in keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: list[NodeSelectorTerm], key: str) -> list[str]:
    return [v for term in terms for e in term.match_expressions if e.key == key for v in e.values]


def _label_zones(volume: PersistentVolume, key: str) -> list[str]:
    zones = volume.metadata.labels.get(key, "").split(ZONE_DELIMITER)
    return sorted({zone.strip() for zone in zones} - {""})


def _renamed(terms: list[NodeSelectorTerm], old: str, new: str) -> list[NodeSelectorTerm]:
    return [
        NodeSelectorTerm(
            match_expressions=[
                NodeSelectorRequirement(
                    key=new if each.key == old else each.key, operator=each.operator, values=each.values
                )
                for each in term.match_expressions
            ],
            match_fields=term.match_fields,
        )
        for term in terms
    ]


def _with_zones(terms: list[NodeSelectorTerm], key: str, zones: list[str]) -> list[NodeSelectorTerm]:
    """Every term (one, if there are none) with the zones required as well."""
    required = NodeSelectorRequirement(key=key, operator="In", values=zones)
    return [
        NodeSelectorTerm(
            match_expressions=[*term.match_expressions, required], match_fields=term.match_fields
        )
        for term in terms or [NodeSelectorTerm()]
    ]
