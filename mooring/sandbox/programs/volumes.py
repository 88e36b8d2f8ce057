"""The volumes of a pod: those whose files a node knows are filled, as kubelet fills them."""

from __future__ import annotations

import math
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from mooring.api.meta import Quantity
from mooring.api.quantity import QuantityError, to_value
from mooring.sandbox.network.names import DOMAIN, SERVER
from mooring.sandbox.programs.environment import substitute
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.file import File
from mooring.sandbox.programs.files import Files, Mount
from mooring.sandbox.programs.images import find_image, lacks_folder
from mooring.sandbox.programs.kernel import KERNEL_FOLDERS, Shares, id_range, kernel_files
from mooring.sandbox.programs.links import resolve
from mooring.sandbox.programs.rights import find_user
from mooring.sandbox.programs.sources import Data, Sources
from mooring.sandbox.programs.space import MOST_OF_POD, Space
from mooring.sandbox.programs.specs import (
    ContainerSpec,
    DownwardItem,
    EmptyDir,
    ImageSource,
    KeyToPath,
    ProjectedSecret,
    Projection,
    RunSpec,
    SecurityContext,
    VolumeMount,
    VolumeSpec,
)
from mooring.sandbox.programs.user import User
from mooring.sandbox.programs.volume import LazyVolume, Volume

DEFAULT_MODE = 0o644
_NO_CONTEXT = SecurityContext()


class SubPathError(Exception):
    """A container cannot be created: its `subPath` or `subPathExpr` is wrong. In kubelet's words."""


class Disk(NamedTuple):
    """Where files are that outlive a pod: at a path of a volume."""

    files: Volume
    path: str = ""


FindDisk = Callable[[str], Disk | None]
"""Returns the disk behind a volume of a pod; None for one that is not a claim."""


def no_disk(name: str) -> Disk | None:
    """Return None: the pod has no claims, or what is on them is not known."""
    return None


class Volumes:
    """The volumes of one pod by their names. `host` has the files of its node."""

    def __init__(
        self, run: RunSpec, sources: Sources, host: Volume, now: float, find_disk: FindDisk = no_disk
    ) -> None:
        self._run = run
        self._host = host
        self._space = Space(MOST_OF_POD, host.space)
        self._group = (run.security_context or _NO_CONTEXT).fs_group
        self._disk_size = _size((sources.capacity or {}).get("ephemeral-storage"))
        self._memory = _memory_size(run, sources)
        self._sources = sources  # as they were at first
        disks = {one.name: find_disk(one.name) for one in run.volumes}
        self._volumes = {one.name: self._make(one, disks[one.name], now) for one in run.volumes}
        self._read_only = {one.name for one in run.volumes if one.is_read_only_claim}
        self._id_range = id_range(sources.metadata.uid, run.host_users)
        self._kernels: dict[str, LazyVolume] = {}  # by container
        self._host_paths = {
            one.name: one.host_path.path.strip("/") for one in run.volumes if one.host_path is not None
        }
        self._host_paths |= {name: disk.path for name, disk in disks.items() if disk is not None}
        self.follows_sources = any(any(project(one)) for one in run.volumes)
        """Whether a volume is filled from ConfigMaps, Secrets or the pod."""
        self.update(sources, now)

    def update(self, sources: Sources, now: float) -> bool:
        """Fill the volumes with what the sources are now; return whether a file has changed."""
        changed = False
        for spec in self._run.volumes:
            projections = [*project(spec)]
            if projections:
                files = self._files(spec, projections, sources)
                changed |= self._volumes[spec.name].replace(files, now)
        return changed

    def refresh_kernel(self, container: str, now: float) -> bool:
        """Show a container what its node gives it now; return whether a program may have seen it before."""
        kernel = self._kernels.get(container)
        return kernel is not None and kernel.refresh(now)

    def mount_unknown(self, spec: ContainerSpec) -> Files:
        """Return the file system of a new run of a container whose volumes cannot be set up."""
        return Files((Mount(one.mount_path, None) for one in spec.volume_mounts), space=self._space)

    def close(self) -> None:
        """Give the room of all files back: the pod is gone."""
        self._space.close()
        for kernel in self._kernels.values():
            kernel.detach()

    @property
    def empty_dirs(self) -> dict[str, Volume]:
        return {one.name: self._volumes[one.name] for one in self._run.volumes if one.empty_dir is not None}

    def written_by(self, files: Files) -> bool:
        """Whether a run of a container has written to a volume."""
        return any(one.written_by(files.writer) for one in self._volumes.values())

    def read(self, name: str, path: str, at: float) -> str | None:
        """Return the content of a file of a volume, None if it does not exist. Raises UnknownProgramError."""
        volume = self._volumes.get(name)
        file = None if volume is None else volume.find(posixpath.normpath(path), at)
        return None if file is None else file.content

    def mount(
        self,
        spec: ContainerSpec,
        variables: Mapping[str, str | None],
        shares: Callable[[], Shares],
        now: float,
    ) -> Files:
        """Return the file system of a new run of a container. Raises SubPathError and
        UnknownProgramError."""
        pod, own = self._run.security_context or _NO_CONTEXT, spec.security_context or _NO_CONTEXT
        mounts = []
        for one in spec.volume_mounts:
            sub_path = one.sub_path
            if one.sub_path_expr:
                sub_path = expand_sub_path(one.sub_path_expr, variables)
            volume = self._volumes.get(one.name)
            inner = self._find_sub_path(spec, one, sub_path, now)
            read_only = one.read_only or one.name in self._read_only
            mounts.append(Mount(one.mount_path.rstrip("/") or "/", volume, inner, read_only))
        user = find_user(spec, pod)
        kernel = LazyVolume(partial(self._kernel_files, user, shares), read_only=True, fs_type="proc")
        self._kernels[spec.name] = kernel
        mounts += [Mount(folder, kernel, folder.strip("/")) for folder in KERNEL_FOLDERS]
        folders = {one.path.strip("/").partition("/")[0] for one in mounts}
        return Files(
            mounts,
            user,
            read_only=bool(own.read_only_root_filesystem),
            folder=spec.working_dir,
            known=[name for name in folders if lacks_folder(spec.image, name)],
            disk_size=self._disk_size,
            space=self._space,
            own=partial(self._own_files, spec.image, mounts),
            started=now,
        )

    def _kernel_files(self, user: User, shares: Callable[[], Shares]) -> dict[str, File]:
        """Return what a container sees of the kernel."""
        pod = self._run.security_context or _NO_CONTEXT
        return kernel_files(user, shares(), pod.sysctls, self._id_range)

    def _own_files(self, image: str, mounts: Iterable[Mount]) -> dict[str, File]:
        """Return the files of a container that are on no volume, by their paths from the root."""
        texts: dict[str, str | None] = {}
        if hosts := _hosts_file(self._run, self._sources):
            texts["etc/hosts"] = hosts
        texts["etc/resolv.conf"] = _resolver_file(self._run, self._sources.metadata.namespace)
        texts |= find_image(image).files
        folders = {one.path.strip("/"): _FOLDER for one in mounts if one.path.strip("/")}
        return folders | {path: File(text) for path, text in texts.items()}

    def _find_sub_path(self, spec: ContainerSpec, mount: VolumeMount, sub_path: str, now: float) -> str:
        """Return the path of a volume that is mounted; a folder that is missing there is created. Raises
        SubPathError and UnknownProgramError."""
        volume = self._volumes.get(mount.name)
        base, inner = self._host_paths.get(mount.name, ""), posixpath.normpath(sub_path) if sub_path else ""
        if volume is None:
            return posixpath.join(base, inner).rstrip("/")
        base = volume.resolve(base, now) or base
        where = f'for volumeMount "{mount.name}" of container "{spec.name}"'
        root = f"/{base}" if mount.name in self._host_paths else None
        resolved = _resolve_sub_path(volume, root, inner, now)
        if resolved is None:
            raise SubPathError(f"failed to prepare subPath {where}")
        if base and _is_missing(volume, base, now):
            volume.write(base, _FOLDER, now)  # container runtimes create it
        if inner and _is_missing(volume, resolved, now):
            is_link = resolved != posixpath.join(base, inner)
            if is_link or mount.name in self._read_only:
                raise SubPathError(f"failed to create subPath directory {where}")
            folder = volume.find(base, now) or volume.folder
            mode = stat.S_IFDIR | 0o750 if volume.read_only else folder.mode
            volume.write(resolved, File(mode=mode, gid=volume.folder.gid), now)
        return resolved

    def _make(self, spec: VolumeSpec, disk: Disk | None, now: float) -> Volume:
        mode, gid = stat.S_IFDIR | 0o777, 0
        if self._group is not None:
            mode, gid = mode | stat.S_ISGID, self._group
        folder = File(mode=mode, gid=gid)
        if spec.empty_dir is not None:
            if spec.empty_dir.medium == "Memory":  # a tmpfs is mounted with the sticky bit
                folder = folder._replace(mode=mode | stat.S_ISVTX)
                size = _tmpfs_size(spec.empty_dir, self._memory)
                return Volume(folder=folder, fs_type="tmpfs", size=size, space=self._space)
            return Volume(folder=folder, space=self._space)
        if spec.host_path is not None:
            return self._host
        if spec.image is not None:
            return _image_volume(spec.image)
        if any(project(spec)):
            return Volume(folder=folder, read_only=True, fs_type="tmpfs", size=self._memory)
        if disk is None:
            return Volume(folder=folder, complete=False, space=self._space)
        if self._group is not None and disk.path:
            disk.files.write(disk.files.resolve(disk.path, now) or disk.path, folder, now)
        elif self._group is not None:
            disk.files.folder = folder
        return disk.files

    def _files(self, spec: VolumeSpec, projections: list[Projection], sources: Sources) -> dict[str, File]:
        default = _default_mode(spec)
        files: dict[str, File] = {}
        for one in projections:
            for path, content, mode in _contents(one, self._run, sources):
                bits, owner = default if mode is None else mode, 0
                if one.service_account_token is not None:
                    user = _only_user(self._run)
                    owner = user or 0
                    if user is not None or self._group is not None:
                        bits = 0o600
                if self._group is not None:
                    bits |= 0o440
                files[path] = File(content, stat.S_IFREG | bits, owner, self._group or 0)
        return files


def _is_missing(volume: Volume, path: str, now: float) -> bool:
    """Whether there is known to be no file."""
    try:
        return volume.find(path, now) is None
    except UnknownProgramError:
        return False


_FOLDER = File(mode=stat.S_IFDIR | 0o755)
_ELSEWHERE = "/volume"
"""Stands for the path that a volume has on its node."""


def _resolve_sub_path(volume: Volume, root: str | None, inner: str, now: float) -> str | None:
    """Return a path of a volume without symbolic links; None if they lead out of it. `root` is where it is
    on a volume that is the disk of a node, None for other volumes."""
    if not volume.has_links:
        return posixpath.join(root or "", inner).strip("/")
    start, root = ("", root) if root is not None else (_ELSEWHERE, _ELSEWHERE)

    def read_link(path: str) -> str | None:
        return volume.read_link(path[len(start) + 1 :], now) if path.startswith(f"{start}/") else None

    end, path = resolve(root, read_link), resolve(f"{root}/{inner}", read_link)
    if end is None or path is None or not f"{path}/".startswith(f"{end.rstrip('/')}/"):
        return None
    return path[len(start) + 1 :]


def _memory_size(run: RunSpec, sources: Sources) -> int | None:
    """Return the bytes of memory that a pod may use; None if that is not known."""
    limits = [one.resources.limits.get("memory") for one in run.containers]
    own = None if run.resources is None else run.resources.limits.get("memory")
    total = _size(own)
    if total is None and None not in limits:
        total = sum(_size(limit) or 0 for limit in limits)
    sizes = (total, _size((sources.allocatable or {}).get("memory")))
    return min((one for one in sizes if one), default=None)


def _tmpfs_size(source: EmptyDir, memory: int | None) -> int | None:
    """Return the size with which kubelet mounts an emptyDir in memory."""
    return min((one for one in (_size(source.size_limit), memory) if one), default=None)


def _size(amount: Quantity | None) -> int | None:
    """Return an amount in bytes; None without one."""
    try:
        return None if amount is None else to_value(amount)
    except QuantityError:
        return None


def _image_volume(source: ImageSource) -> Volume:
    """Return a volume with what is known of an image."""
    folder = File(mode=stat.S_IFDIR | 0o755)
    volume = Volume(complete=False, folder=folder, read_only=True)
    for path, text in find_image(source.reference).files.items():
        volume.write(path, File(text), -math.inf)
    return volume


_HOSTS = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


_NODE_HOSTS = """# Kubernetes-managed hosts file (host network).
127.0.0.1\tlocalhost
"""
"""What containers in the network of a fake node see."""


def _hosts_file(run: RunSpec, sources: Sources) -> str:
    """Return the file that kubelet mounts as /etc/hosts; "" where the address of the pod is not known."""
    address = sources.fields.get("status.podIP")
    if not address:
        return ""
    if run.host_network:
        return _NODE_HOSTS + _host_aliases(run)
    name, domain = sources.hostname or sources.metadata.name, ""
    if run.subdomain and run.hostname_override is None:
        domain = f"{run.subdomain}.{sources.metadata.namespace}.svc.cluster.local"
    text = f"{_HOSTS}{address}\t{f'{name}.{domain}{chr(9)}' if domain else ''}{name}\n"
    return text + _host_aliases(run)


def _host_aliases(run: RunSpec) -> str:
    if not run.host_aliases:
        return ""
    lines = (f"{one.ip}\t{chr(9).join(one.hostnames)}\n" for one in run.host_aliases)
    return "\n# Entries added by HostAliases.\n" + "".join(lines)


def _resolver_file(run: RunSpec, namespace: str) -> str:
    """Return /etc/resolv.conf: that of the cluster, of the node, or what the pod asks for."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str | None] = {}
    if run.dns_policy in ("", "ClusterFirstWithHostNet") or (
        run.dns_policy == "ClusterFirst" and not run.host_network
    ):
        servers = [SERVER]
        searches = [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
        options = {"ndots": "5"}
    if run.dns_config is not None:
        servers += run.dns_config.nameservers
        searches += run.dns_config.searches
        options |= {one.name: one.value for one in run.dns_config.options}
    texts = (name if value is None else f"{name}:{value}" for name, value in options.items())
    lines = [f"search {' '.join(dict.fromkeys(searches))}"] if searches else []
    lines += [f"nameserver {one}" for one in dict.fromkeys(servers)]
    lines += [f"options {' '.join(texts)}"] if options else []
    return "".join(f"{line}\n" for line in lines)


def expand_sub_path(expression: str, variables: Mapping[str, str | None]) -> str:
    """Return the path that a `subPathExpr` stands for. Raises SubPathError and UnknownProgramError."""
    path = substitute(expression, variables)
    if "$(" in path:
        name = path.partition("$(")[2].partition(")")[0]
        raise SubPathError(f'missing value for "{name}"')
    if path.startswith("/"):
        raise SubPathError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise SubPathError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def project(spec: VolumeSpec) -> Iterator[Projection]:
    """Yield the sources of a volume that kubelet fills with files."""
    if spec.config_map is not None:
        yield Projection(config_map=spec.config_map)
    elif spec.secret is not None:
        secret = spec.secret
        yield Projection(
            secret=ProjectedSecret(name=secret.secret_name, items=secret.items, optional=secret.optional)
        )
    elif spec.downward_api is not None:
        yield Projection(downward_api=spec.downward_api)
    elif spec.projected is not None:
        yield from spec.projected.sources


def _default_mode(spec: VolumeSpec) -> int:
    source = spec.config_map or spec.secret or spec.downward_api or spec.projected
    mode = None if source is None else source.default_mode
    return DEFAULT_MODE if mode is None else mode


def _contents(
    one: Projection, run: RunSpec, sources: Sources
) -> Iterator[tuple[str, str | None, int | None]]:
    """Yield paths, contents and modes of the files of a source."""
    if one.config_map is not None and sources.config_maps is not None:
        yield from _keys(sources.config_maps.get(one.config_map.name), one.config_map.items)
    elif one.secret is not None and sources.secrets is not None:
        yield from _keys(sources.secrets.get(one.secret.name), one.secret.items)
    elif one.downward_api is not None:
        for item in one.downward_api.items:
            yield item.path, _downward(item, run, sources), item.mode
    elif one.service_account_token is not None:
        token = one.service_account_token
        yield token.path, sources.tokens.get((token.audience, token.expiration_seconds)), None


def _keys(data: Data | None, items: list[KeyToPath]) -> Iterator[tuple[str, str | None, int | None]]:
    if not items:
        yield from ((key, value, None) for key, value in (data or {}).items())
    for item in items:
        if data is not None and item.key in data:
            yield posixpath.normpath(item.path), data[item.key], item.mode


def _downward(item: DownwardItem, run: RunSpec, sources: Sources) -> str | None:
    if item.field_ref is not None:
        return sources.read_field(item.field_ref)
    ref = item.resource_field_ref
    containers: Iterable[ContainerSpec] = (*run.containers, *run.init_containers)
    spec = (
        None if ref is None else next((each for each in containers if each.name == ref.container_name), None)
    )
    return None if ref is None or spec is None else sources.read_resource(ref, spec)


def _only_user(run: RunSpec) -> int | None:
    """Return the user of all containers, who owns tokens, if it is the same."""
    pod = (run.security_context or _NO_CONTEXT).run_as_user
    users = {
        own if (own := (one.security_context or _NO_CONTEXT).run_as_user) is not None else pod
        for one in (*run.init_containers, *run.containers)
    }
    return users.pop() if len(users) == 1 else None
