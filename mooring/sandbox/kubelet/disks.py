"""The files of claims: they outlive pods, and pods of all nodes see the same."""

from __future__ import annotations

from contextlib import suppress

from mooring.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolume
from mooring.client.cache import Cache
from mooring.sandbox.controllers.volume_matching import PROVISIONED_BY
from mooring.sandbox.kubelet.fleet import Machine
from mooring.sandbox.kubelet.mounted_claims import claimed_volumes
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.volumes import Disk


class Disks:
    """The disks behind PersistentVolumes, for as long as these exist."""

    def __init__(self, cache: Cache) -> None:
        self._claims = cache.follow(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = cache.follow(PERSISTENT_VOLUMES)
        self._volumes.subscribe(self._changed)
        self._files: dict[str, Volume] = {}  # by the uid of the PersistentVolume

    def missing_path(self, pod: Pod, machine: Machine, now: float) -> str:
        """Return which local volume of a pod has no folder on its node, in kubelet's words, or ""."""
        for _, claim in claimed_volumes(pod):
            volume = self._volume(pod, claim)
            if volume is None or volume.spec.local is None:
                continue
            path = volume.spec.local.path
            with suppress(UnknownProgramError):
                resolved = machine.files.resolve(path.strip("/"), now)
                if resolved is None or machine.files.find(resolved, now) is None:
                    what = f'MountVolume.NewMounter initialization failed for volume "{volume.name}"'
                    return f'{what} : path "{path}" does not exist'
        return ""

    def find(self, pod: Pod, machine: Machine, name: str) -> Disk | None:
        """Return where the files of a pod's volume are; None if it is not a claim."""
        claim_name = dict(claimed_volumes(pod)).get(name)
        volume = None if claim_name is None else self._volume(pod, claim_name)
        if volume is None:
            return None
        spec = volume.spec
        path = spec.host_path or spec.local
        if path is not None:
            return Disk(machine.files, path.path.strip("/"))
        is_new = PROVISIONED_BY in volume.metadata.annotations  # what else is on a disk is not known
        if volume.uid not in self._files:
            self._files[volume.uid] = Volume(complete=is_new, space=machine.files.space)
        return Disk(self._files[volume.uid])

    def _volume(self, pod: Pod, claim_name: str) -> PersistentVolume | None:
        claim = self._claims.get(f"{pod.namespace}/{claim_name}")
        return None if claim is None else self._volumes.get(claim.spec.volume_name)

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            files = self._files.pop(old.uid, None)
            if files is not None:
                files.close()
