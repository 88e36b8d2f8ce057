"""The ConfigMaps and Secrets that pods need, what is in them, and which of them are missing."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.client.api_errors import ApiError
from mooring.client.port import Cluster
from mooring.sandbox.programs.sources import Data, Sources
from mooring.sandbox.programs.specs import ContainerSpec, KeyRef, KeyToPath, PodRun, Projection
from mooring.sandbox.programs.volumes import project


class Keyed(KubeObject):
    """A ConfigMap or Secret."""

    data: dict[str, Any] = {}

    @property
    def values(self) -> Data:
        raise NotImplementedError


class ConfigMap(Keyed):
    binary_data: dict[str, Any] = {}

    @property
    def values(self) -> Data:
        return self.data | {key: _decode(value) for key, value in self.binary_data.items()}


class Secret(Keyed):
    @property
    def values(self) -> Data:
        return {key: _decode(value) for key, value in self.data.items()}


CONFIG_MAPS: ApiResource[Keyed] = ApiResource("", "v1", "configmaps", True, ConfigMap)
SECRETS: ApiResource[Keyed] = ApiResource("", "v1", "secrets", True, Secret)
ROOT_CA = "kube-root-ca.crt"
"""The ConfigMap that every namespace has, and almost every pod mounts."""
_MOST_SHARED: Final = 64
"""Objects whose values the pods that read them share."""


def _decode(value: Any) -> str:
    try:
        return base64.b64decode(value, validate=True).decode(errors="surrogateescape")
    except (binascii.Error, TypeError, ValueError):
        return ""


class _Shared(NamedTuple):
    uid: str
    version: str
    values: Data


class Configuration:
    """Reads ConfigMaps and Secrets when pods start. Pods share the values of one version."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shared: OrderedDict[tuple[str, str, str], _Shared] = OrderedDict()

    async def read(self, run: PodRun, sources: Sources) -> Sources:
        """Return the sources with the ConfigMaps and Secrets that a pod names."""
        namespace = sources.metadata.namespace
        maps = {name: await self._get(CONFIG_MAPS, namespace, name) for name in config_map_names(run)}
        secrets = {name: await self._get(SECRETS, namespace, name) for name in secret_names(run)}
        return sources._replace(config_maps=maps, secrets=secrets)

    async def _get(self, resource: ApiResource[Keyed], namespace: str, name: str) -> Data | None:
        try:
            current = await self._cluster.get(resource, name, namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            return None
        key, version = (resource.plural, namespace, name), current.metadata.resource_version
        shared = self._shared.pop(key, None)
        if shared is None or (shared.uid, shared.version) != (current.uid, version):
            shared = _Shared(current.uid, version, current.values)
        self._shared[key] = shared
        if len(self._shared) > _MOST_SHARED:
            self._shared.popitem(last=False)
        return shared.values


def config_map_names(run: PodRun) -> set[str]:
    """Return the ConfigMaps that a pod names; without one that no container reads."""
    names = {ref.name for kind, ref in _references(run) if kind == "configmap"}
    names |= {one.config_map.name for one in _projections(run) if one.config_map is not None}
    return names if run.has_commands else names - {ROOT_CA}


def secret_names(run: PodRun) -> set[str]:
    names = {ref.name for kind, ref in _references(run) if kind == "secret"}
    return names | {one.secret.name for one in _projections(run) if one.secret is not None}


def missing_volume(run: PodRun, sources: Sources) -> str:
    """Return what keeps the volumes of a pod from being mounted, in kubelet's words, or ""."""
    for volume in run.spec.volumes:
        for one in project(volume):
            problem = ""
            if one.config_map is not None and not one.config_map.optional and one.config_map.name != ROOT_CA:
                problem = _lacks_item("configmap", one.config_map.name, one.config_map.items, sources)
            elif one.secret is not None and not one.secret.optional:
                problem = _lacks_item("secret", one.secret.name, one.secret.items, sources)
            if problem:
                return f'MountVolume.SetUp failed for volume "{volume.name}" : {problem}'
    return ""


def missing_keys(run: PodRun, sources: Sources) -> dict[str, str]:
    """Return what the variables of containers lack, by the names of the containers."""
    missing = {}
    for spec in (*run.spec.init_containers, *run.spec.containers):
        problems = (_lacks_key(kind, ref, sources) for kind, ref in _variable_references(spec))
        if problem := next(filter(None, problems), ""):
            missing[spec.name] = problem
    return missing


def _lacks_item(kind: str, name: str, items: list[KeyToPath], sources: Sources) -> str:
    data = _data(kind, name, sources)
    if data is None:
        return f'{kind} "{name}" not found'
    lost = next((item.key for item in items if item.key not in data), None)
    if lost is None:
        return ""
    what = (
        "configmap references non-existent config"
        if kind == "configmap"
        else "references non-existent secret"
    )
    return f"{what} key: {lost}"


def _lacks_key(kind: str, ref: KeyRef, sources: Sources) -> str:
    if ref.optional:
        return ""
    data = _data(kind, ref.name, sources)
    if data is None:
        return f'{kind} "{ref.name}" not found'
    if ref.key and ref.key not in data:
        title = "ConfigMap" if kind == "configmap" else "Secret"
        return f"couldn't find key {ref.key} in {title} {sources.metadata.namespace}/{ref.name}"
    return ""


def _data(kind: str, name: str, sources: Sources) -> Data | None:
    return ((sources.config_maps if kind == "configmap" else sources.secrets) or {}).get(name)


def _references(run: PodRun) -> Iterator[tuple[str, KeyRef]]:
    for spec in (*run.spec.init_containers, *run.spec.containers, *run.spec.ephemeral_containers):
        yield from _variable_references(spec)


def _variable_references(spec: ContainerSpec) -> Iterator[tuple[str, KeyRef]]:
    """Yield the ConfigMaps and Secrets, and their keys, that variables of a container come from."""
    for source in spec.env_from:
        yield from _present(source.config_map_ref, source.secret_ref)
    for variable in spec.env:
        if variable.value_from is not None:
            yield from _present(variable.value_from.config_map_key_ref, variable.value_from.secret_key_ref)


def _present(config_map: KeyRef | None, secret: KeyRef | None) -> Iterator[tuple[str, KeyRef]]:
    if config_map is not None:
        yield "configmap", config_map
    if secret is not None:
        yield "secret", secret


def _projections(run: PodRun) -> Iterator[Projection]:
    for volume in run.spec.volumes:
        yield from project(volume)
