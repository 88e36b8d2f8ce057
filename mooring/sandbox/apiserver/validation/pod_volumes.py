"""The volumes of a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.api.quantity import parse
from mooring.sandbox.apiserver.errors import Cause, duplicate, forbidden_value, invalid_value, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.claims import claim_spec, csi_driver, host_path
from mooring.sandbox.apiserver.validation.environment import resource_field_selector, volume_field_selector
from mooring.sandbox.apiserver.validation.fields import Causes, file_mode, relative_path, required_text
from mooring.sandbox.apiserver.validation.labels import labels
from mooring.sandbox.apiserver.validation.names import dns_label, dns_subdomain

_SEVERAL: Final = "may not specify more than 1 volume type"
_NEEDED: Final = {
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "nfs": ("server", "path"),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "cinder": ("volumeID",),
    "azureFile": ("secretName", "shareName"),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "portworxVolume": ("volumeID",),
    "vsphereVolume": ("volumePath",),
}
"""Required members of the simpler kinds of volumes."""


def volumes(path: str, items: Sequence[Tree], pod: str) -> tuple[dict[str, Tree], list[Cause]]:
    """Return the valid volumes by name, and the causes of others; `pod` is the name of the pod, if any."""
    good: dict[str, Tree] = {}
    causes: list[Cause] = []
    own = {f"{pod}-{volume.get('name')}" for volume in items if pod and volume.get("ephemeral") is not None}
    for index, volume in enumerate(items):
        at, name = f"{path}[{index}]", volume.get("name", "")
        problems = [*_source(at, volume, pod), *required_text(f"{at}.name", name, dns_label)]
        if name in good:
            problems.append(duplicate(f"{at}.name", name))
        if not problems:
            good[name] = volume
        causes += problems
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in own:
            why = "must not reference a PVC that gets created for an ephemeral volume"
            causes.append(invalid_value(f"{at}.persistentVolumeClaim.claimName", claim, why))
    return good, causes


def _source(path: str, volume: Tree, pod: str) -> Causes:
    kinds = [name for name, value in volume.items() if name != "name" and value is not None]
    if not kinds:
        yield required(path, "must specify a volume type")
        return
    kinds.sort(key=lambda name: name != "emptyDir")  # only one source is allowed
    kind, source = kinds[0], volume[kinds[0]]
    at = f"{path}.{kind}"
    for name in _NEEDED.get(kind, ()):
        if not source.get(name):
            yield required(f"{at}.{name}")
    if kind in ("secret", "configMap", "downwardAPI", "projected"):
        yield from _files(at, kind, source)
    elif kind == "emptyDir":
        if source.get("sizeLimit") is not None and parse(source["sizeLimit"]) < 0:
            yield forbidden_value(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    elif kind == "hostPath":
        yield from host_path(at, source)
    elif kind == "csi":
        yield from csi_driver(f"{at}.driver", source.get("driver", ""))
    elif kind == "ephemeral":
        yield from _ephemeral(at, path, volume, pod)
    for name in kinds[1:]:
        yield forbidden_value(f"{path}.{name}", _SEVERAL)


def _ephemeral(at: str, path: str, volume: Tree, pod: str) -> Causes:
    """Validate the template of a claim that is created for this pod alone."""
    template = volume["ephemeral"].get("volumeClaimTemplate")
    if template is None:
        yield required(f"{at}.volumeClaimTemplate")
        return
    at = f"{at}.volumeClaimTemplate"
    metadata = template.get("metadata") or {}
    yield from labels(f"{at}.metadata.labels", metadata.get("labels"))
    for name in metadata:
        if name not in ("labels", "annotations"):
            yield forbidden_value(f"{at}.metadata.{name}", "cannot be set")
    yield from claim_spec(f"{at}.spec", template.get("spec") or {})
    name = volume.get("name", "")
    if pod and name:
        claim = f"{pod}-{name}"
        for problem in dns_subdomain(claim):
            yield invalid_value(f"{path}.name", name, f'PVC name "{claim}": {problem}')


def _files(path: str, kind: str, volume: Tree) -> Causes:
    yield from file_mode(f"{path}.defaultMode", volume.get("defaultMode"))
    if kind == "downwardAPI":
        for item in volume.get("items") or ():
            yield from _downward_file(path, item)
    elif kind == "projected":
        for index, source in enumerate(volume.get("sources") or ()):
            yield from _projection(f"{path}.sources[{index}]", source)
    else:
        yield from _items(f"{path}.items", volume)


def _items(path: str, source: Tree) -> Causes:
    for index, item in enumerate(source.get("items") or ()):
        at = f"{path}[{index}]"
        if not item.get("key"):
            yield required(f"{at}.key")
        yield from _file_path(f"{at}.path", item.get("path", ""))
        yield from file_mode(f"{at}.mode", item.get("mode"))


def _file_path(path: str, value: str) -> Causes:
    if not value:
        yield required(path)
    yield from relative_path(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid_value(path, value, "must not start with '..'")


def _downward_file(path: str, item: Tree) -> Causes:
    yield from _file_path(f"{path}.path", item.get("path", ""))
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from volume_field_selector(f"{path}.fieldRef", field)
        if resource is not None:
            why = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid_value(path, "resource", why)
    elif resource is not None:
        yield from resource_field_selector(f"{path}.resourceFieldRef", resource, in_volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(f"{path}.mode", item.get("mode"))


def _projection(path: str, source: Tree) -> Causes:
    kinds = [name for name, value in source.items() if value is not None]
    for name in kinds:
        at, projection = f"{path}.{name}", source[name]
        if name in ("secret", "configMap"):
            if not projection.get("name"):
                yield required(f"{at}.name")
            yield from _items(f"{at}.items", projection)
        elif name == "downwardAPI":
            for item in projection.get("items") or ():
                yield from _downward_file(at, item)
        elif name == "serviceAccountToken" and not projection.get("path"):
            yield required(f"{at}.path")
    if len(kinds) > 1:
        yield forbidden_value(path, "may not specify more than 1 volume type per source")
    if not kinds:
        yield required(path, "must specify a volume type")
