"""The ConfigMaps and Secrets that pods need, and which of them are missing."""

from __future__ import annotations

from typing import Any

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.client.api_errors import ApiError
from mooring.client.port import Cluster
from mooring.sandbox.programs.specs import ContainerSpec, KeyRef, PodRun


class Keyed(KubeObject):
    """A ConfigMap or Secret, of which only the keys matter."""

    data: dict[str, Any] = {}
    binary_data: dict[str, Any] = {}


CONFIG_MAPS = ApiResource("", "v1", "configmaps", True, Keyed)
SECRETS = ApiResource("", "v1", "secrets", True, Keyed)
_KINDS = {"configmap": CONFIG_MAPS, "secret": SECRETS}
_TITLES = {"configmap": "ConfigMap", "secret": "Secret"}


class Configuration:
    """Looks up ConfigMaps and Secrets when pods start."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def missing_volume(self, pod: Pod, run: PodRun) -> str:
        """Return what keeps the volumes of a pod from being mounted, in kubelet's words, or ""."""
        for volume in run.spec.volumes:
            if volume.config_map is not None and not volume.config_map.optional:
                kind, name = "configmap", volume.config_map.name
            elif volume.secret is not None and not volume.secret.optional:
                kind, name = "secret", volume.secret.secret_name
            else:
                continue
            if await self._get(kind, pod.namespace, name) is None:
                return f'MountVolume.SetUp failed for volume "{volume.name}" : {kind} "{name}" not found'
        return ""

    async def missing_keys(self, pod: Pod, run: PodRun) -> dict[str, str]:
        """Return what the variables of containers lack, by the names of the containers."""
        missing = {}
        for spec in (*run.spec.init_containers, *run.spec.containers):
            if spec.is_configured and (problem := await self._problem(pod.namespace, spec)):
                missing[spec.name] = problem
        return missing

    async def _problem(self, namespace: str, spec: ContainerSpec) -> str:
        for source in spec.env_from:
            for kind, ref in (("configmap", source.config_map_ref), ("secret", source.secret_ref)):
                if ref is not None and (problem := await self._lacks(namespace, kind, ref)):
                    return problem
        for variable in spec.env:
            value = variable.value_from
            if value is None:
                continue
            for kind, ref in (("configmap", value.config_map_key_ref), ("secret", value.secret_key_ref)):
                if ref is not None and (problem := await self._lacks(namespace, kind, ref)):
                    return problem
        return ""

    async def _lacks(self, namespace: str, kind: str, ref: KeyRef) -> str:
        if ref.optional:
            return ""
        found = await self._get(kind, namespace, ref.name)
        if found is None:
            return f'{kind} "{ref.name}" not found'
        if ref.key and ref.key not in found.data and ref.key not in found.binary_data:
            return f"couldn't find key {ref.key} in {_TITLES[kind]} {namespace}/{ref.name}"
        return ""

    async def _get(self, kind: str, namespace: str, name: str) -> Keyed | None:
        try:
            return await self._cluster.get(_KINDS[kind], name, namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            return None
