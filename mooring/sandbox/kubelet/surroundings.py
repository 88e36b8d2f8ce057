"""What the containers of a pod see: the sources of their variables and files, and their volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from mooring.sandbox.kubelet.container_life import NO_FILES, RUNNING, ContainerLife
from mooring.sandbox.programs.environment import read_environment
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.kernel import Shares
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import PodRun
from mooring.sandbox.programs.volume import Volume
from mooring.sandbox.programs.volumes import FindDisk, Volumes


class Surroundings:
    """The surroundings of the containers of one pod. `host` is the disk of their node, `find_disk` returns
    those of claims."""

    __slots__ = ("_find_disk", "_host", "_run", "_volumes", "sources")

    def __init__(self, run: PodRun | None, sources: Sources, host: Volume, find_disk: FindDisk) -> None:
        self._run = run
        self._host = host
        self._find_disk = find_disk
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

    def mount(self, one: ContainerLife, shares: Callable[[], Shares], now: float) -> Files:
        """Return the file system of a new run. Raises SubPathError."""
        if self._run is None or one.spec is None:
            return NO_FILES
        volumes = self._set_up_volumes(self._run, now)
        try:
            variables = read_environment(one.spec, one.sources or self.sources)
            return volumes.mount(one.spec, variables, shares, now)
        except UnknownProgramError:
            return volumes.mount_unknown(one.spec)

    def _set_up_volumes(self, run: PodRun, now: float) -> Volumes:
        if self._volumes is None:
            self._volumes = Volumes(run.spec, self.sources, self._host, now, self._find_disk)
        return self._volumes

    def close(self) -> None:
        """Give the room of all files back: the pod is gone."""
        if self._volumes is not None:
            self._volumes.close()

    def refresh_kernel(self, container: str, now: float) -> bool:
        """Show a container what its node gives it now; return whether a program may have seen it before."""
        return self._volumes is not None and self._volumes.refresh_kernel(container, now)

    def shows_host(self, path: str) -> bool:
        """Whether containers may see what is in a folder of their node."""
        volumes = () if self._run is None else self._run.spec.volumes
        paths = (one.host_path.path.strip("/") for one in volumes if one.host_path is not None)
        return any(
            f"{path}/".startswith(f"{each}/" if each else "") or each.startswith(path) for each in paths
        )

    def write_to_host(self, folder: str, files: Mapping[str, str], now: float) -> None:
        """Write files to a folder of the node."""
        for name, text in files.items():
            with suppress(UnknownProgramError):  # the disk of the node is full
                self._host.write(f"{folder}/{name}", File(text), now)
            self._host.forget_oldest(f"{folder}/{name}")

    def remove_from_host(self, folder: str, now: float) -> None:
        """Remove a folder of the node."""
        with suppress(UnknownProgramError):
            self._host.remove(folder, now, None)

    def update(self, sources: Sources, now: float) -> bool:
        """Follow a change of what files come from; return whether a file has changed."""
        self.sources = sources
        return self._volumes is not None and self._volumes.update(sources, now)

    @property
    def empty_dirs(self) -> Mapping[str, Volume]:
        """The emptyDirs by their names; none before a container starts."""
        return {} if self._volumes is None else self._volumes.empty_dirs

    def written_by(self, files: Files) -> bool:
        """Whether a run of a container has written to a volume."""
        return self._volumes is not None and self._volumes.written_by(files)

    def may_change(self, containers: Iterable[ContainerLife], now: float) -> bool:
        """Whether a running container is yet to read files that come from ConfigMaps, Secrets or the pod."""
        if self._volumes is None or not self._volumes.follows_sources:
            return False
        return any(one.state == RUNNING and one.files.last_read > now for one in containers)
