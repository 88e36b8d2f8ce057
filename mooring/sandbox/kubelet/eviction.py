"""Eviction of pods that use more local storage than they may, as kubelet's eviction manager decides it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.meta import Quantity
from mooring.api.objects import Pod
from mooring.api.quantity import to_value
from mooring.api.quantity_texts import written
from mooring.api.resources import total_limits
from mooring.sandbox.kubelet.container_life import RUNNING
from mooring.sandbox.kubelet.containers import PodLife
from mooring.sandbox.kubelet.shares import CRITICAL
from mooring.sandbox.programs.volume import Volume

EVICTED: Final = "Evicted"
PERIOD: Final = 10.0
"""Seconds from one measurement of what pods use to the next."""
_RESOURCE: Final = "ephemeral-storage"


class StorageLimits:
    """The limits of a pod, and whether it exceeds one. Only what programs are known to write counts."""

    __slots__ = ("_containers", "_due", "_empty_dirs", "_like", "_pod")

    def __init__(self, pod: Pod, life: PodLife) -> None:
        volumes = () if life.run is None else life.run.spec.volumes
        self._empty_dirs: dict[str, Quantity] = {
            one.name: one.empty_dir.size_limit
            for one in volumes
            if one.empty_dir is not None and one.empty_dir.size_limit and to_value(one.empty_dir.size_limit)
        }
        self._containers: dict[str, Quantity] = {
            one.name: one.resources.limits[_RESOURCE]
            for one in pod.spec.containers
            if _RESOURCE in one.resources.limits
        }
        self._pod = total_limits(pod, use_status=False).get(_RESOURCE)
        limits = (
            one.resources.limits.get(_RESOURCE) for one in (*pod.spec.containers, *pod.spec.init_containers)
        )
        self._like = next((str(limit) for limit in limits if limit is not None), "")
        self._due: float | None = None  # when a limit is exceeded that is: the next measurement
        if pod.priority >= CRITICAL:
            self._empty_dirs, self._containers, self._pod = {}, {}, None

    def check(self, life: PodLife, now: float) -> tuple[str, float | None]:
        """Return why the pod is to be evicted now, in kubelet's words, or ""; and when to check again."""
        if not (self._empty_dirs or self._pod is not None):
            return "", None
        message = self._find_excess(life, now)
        if not message:
            self._due = None
            changes = (at for volume in _volumes(life) for at in volume.changes(now))
            return "", min(changes, default=None)
        if self._due is None:
            self._due = (now // PERIOD + 1) * PERIOD
        return (message, None) if now >= self._due else ("", self._due)

    def _find_excess(self, life: PodLife, now: float) -> str:
        for name, limit in self._empty_dirs.items():
            volume = life.surroundings.empty_dirs.get(name)
            if volume is not None and _used(volume, now) > to_value(limit):
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
        if self._pod is not None and sum(_used(one, now) for one in _volumes(life)) * 10**9 > self._pod:
            limit = written(self._pod, self._like)
            return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        for one in life.containers:
            own = self._containers.get(one.name)
            if own is not None and one.state == RUNNING and _used(one.files.root, now) > to_value(own):
                return f'Container {one.name} exceeded its local ephemeral storage limit "{own}". '
        return ""


def _volumes(life: PodLife) -> Iterator[Volume]:
    """Yield what a pod writes to that is on the disk of its node and ends with the pod."""
    yield from (one for one in life.surroundings.empty_dirs.values() if one.fs_type != "tmpfs")
    yield from (one.files.root for one in life.all if one.state == RUNNING)


def _used(volume: Volume, now: float) -> int:
    return volume.used_space(now, by_programs=True)
