"""The CSI volumes that pods attach to their nodes, by driver and handle."""

from __future__ import annotations

from typing import NamedTuple

from mooring.api.objects import Volume
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.framework.handle import Listers
from mooring.framework.pod import PodInfo
from mooring.plugins.volumes.claims import (
    CLAIM_KIND,
    VolumeError,
    class_of_claim,
    not_found,
    ownership_problem,
)
from mooring.plugins.volumes.migration import (
    MigrationError,
    inline_handle,
    plugin_named,
    plugin_of,
    volume_handle,
)


class Attachment(NamedTuple):
    """A CSI volume; one that is yet to be provisioned is known by its claim."""

    driver: str
    handle: str


class MissingClaim(LookupError):  # noqa: N818 - says what is wrong
    """A new pod's claim does not exist."""


def may_attach(volume: Volume) -> bool:
    """Whether a pod's volume may be a CSI volume: through a claim, or by migration."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of(volume) is not None
    )


def attachments_of(
    listers: Listers, pod: PodInfo, *, must_exist: bool, migrate: bool = True
) -> frozenset[Attachment]:
    """The CSI volumes of a pod. `must_exist`: its claims must be there. `migrate`: on a node that has a
    CSINode, without which in-tree volumes are not migrated. Raises MissingClaim, VolumeError."""
    attachments = set()
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name, ephemeral = volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            name, ephemeral = f"{pod.name}-{volume.name}", True
        else:
            if migrate and (attachment := _inline(volume)) is not None:
                attachments.add(attachment)
            continue
        if not name:
            raise VolumeError("PersistentVolumeClaim had no name")
        claim = listers.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            if must_exist:
                missing = not_found(CLAIM_KIND, name)
                raise MissingClaim(f"looking up PVC {pod.namespace}/{name}: {missing}")
            continue
        problem = ownership_problem(pod, claim) if ephemeral else None
        if problem is not None:
            raise VolumeError(problem)
        if (attachment := _of_claim(listers, claim)) is not None:
            attachments.add(attachment)
    return frozenset(attachments)


def attached_to(listers: Listers, attachment: VolumeAttachment) -> Attachment | None:
    """The CSI volume that a VolumeAttachment speaks of, if it says so."""
    name = attachment.spec.source.persistent_volume_name
    volume = None if name is None else listers.get(PersistentVolume, name)
    if not attachment.spec.attacher or volume is None or volume.spec.csi is None:
        return None
    return Attachment(attachment.spec.attacher, volume.spec.csi.volume_handle)


def _inline(volume: Volume) -> Attachment | None:
    plugin = plugin_of(volume)
    if plugin is None or not plugin.migrated:
        return None
    try:
        return Attachment(plugin.driver, inline_handle(volume, plugin))
    except MigrationError as error:
        raise VolumeError(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _of_claim(listers: Listers, claim: PersistentVolumeClaim) -> Attachment | None:
    volume = listers.get(PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        return _of_class(listers, claim)
    attachment = None
    if volume.spec.csi is not None:
        attachment = Attachment(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    else:
        plugin = plugin_of(volume.spec)
        if plugin is not None and plugin.migrated:
            try:
                attachment = Attachment(plugin.driver, volume_handle(volume, plugin))
            except MigrationError:
                return None
    return attachment if attachment is not None and all(attachment) else None


def _of_class(listers: Listers, claim: PersistentVolumeClaim) -> Attachment | None:
    """The volume that the claim's storage class is going to provision."""
    name = class_of_claim(claim)
    storage_class = listers.get(StorageClass, name) if name else None
    if storage_class is None:
        return None
    driver = storage_class.provisioner
    plugin = plugin_named(driver)
    if plugin is not None:
        if not plugin.migrated:
            return None
        driver = plugin.driver
    # No volume has such a name, so it differs from every volume that exists.
    return Attachment(driver, f"\0{claim.key}") if driver else None
