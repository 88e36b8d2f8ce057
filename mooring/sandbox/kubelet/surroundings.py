"""What the containers of a pod see: the sources of their variables and files, and their volumes."""

from __future__ import annotations

from contextlib import suppress

from mooring.sandbox.kubelet.container_life import NO_FILES, RUNNING, ContainerLife
from mooring.sandbox.programs.environment import read_environment
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.files import Files, Mount, Volume
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import PodRun
from mooring.sandbox.programs.volumes import Volumes


class Surroundings:
    """The surroundings of the containers of one pod. `host` is the disk of their node."""

    __slots__ = ("_host", "_run", "_volumes", "sources")

    def __init__(self, run: PodRun | None, sources: Sources, host: Volume) -> None:
        self._run = run
        self._host = host
        self._volumes: Volumes | None = None  # until a container starts
        self.sources = sources

    def look_around(self, one: ContainerLife, now: float) -> Sources:
        """Return what a container that starts now takes variables from."""
        if one.spec is None or self._run is None or not one.spec.file_keys:
            return self.sources
        volumes, files = self._set_up_volumes(self._run, now), {}
        for ref in one.spec.file_keys:
            with suppress(UnknownProgramError):
                files[ref.volume_name, ref.path] = volumes.read(ref.volume_name, ref.path, now)
        return self.sources._replace(env_files=files)

    def mount(self, one: ContainerLife, now: float) -> Files:
        """Return the file system of a new run. Raises SubPathError."""
        if self._run is None or one.spec is None:
            return NO_FILES
        volumes = self._set_up_volumes(self._run, now)
        try:
            return volumes.mount(one.spec, read_environment(one.spec, one.sources or self.sources), now)
        except UnknownProgramError:
            return Files(Mount(mount.mount_path, None) for mount in one.spec.volume_mounts)

    def _set_up_volumes(self, run: PodRun, now: float) -> Volumes:
        if self._volumes is None:
            self._volumes = Volumes(run.spec, self.sources, self._host, now)
        return self._volumes

    def update(self, sources: Sources, now: float) -> bool:
        """Follow a change of what files come from; return whether a file has changed."""
        self.sources = sources
        return self._volumes is not None and self._volumes.update(sources, now)

    def written_by(self, files: Files) -> bool:
        """Whether a run of a container has written to a volume."""
        return self._volumes is not None and self._volumes.written_by(files)

    def may_change(self, one: ContainerLife, now: float) -> bool:
        """Whether a running container is yet to read files that come from ConfigMaps, Secrets or the pod."""
        return (
            self._volumes is not None
            and self._volumes.follows_sources
            and one.state == RUNNING
            and one.files.last_read > now
        )
