"""Containers, and the volumes of pods."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from mooring.api.quantity import parse
from mooring.api.quantity_texts import canonical
from mooring.sandbox.apiserver.objects import Tree

_REFERENCE = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?/)?"  # a registry host
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_FILE_MODE: Final = 0o644
_NANO_PER_MILLI: Final = 10**6


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """Return Always for the tag "latest", explicit or by default, else IfNotPresent."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def default_container(container: Tree) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        if source:
            _default_source(source)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])
    if "lifecycle" in container:
        for hook in container["lifecycle"].values():
            if isinstance(hook, dict):
                _default_http(hook)
    resources = container["resources"]
    if resources:
        round_up(resources)


def _default_source(source: Tree) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_probe(probe: Tree) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(handler: Tree) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def round_up(holder: Tree, *names: str) -> None:
    """Round resources up to thousandths; `names` are the members of the tree that hold them."""
    for name in names or ("requests", "limits"):
        quantities = holder.get(name)
        if quantities:
            for resource, quantity in quantities.items():
                if quantity[-1] in "nu":
                    quantities[resource] = _to_milli(quantity)


@lru_cache(maxsize=1024)
def _to_milli(quantity: str) -> str:
    return canonical(f"{-(-parse(quantity) // _NANO_PER_MILLI)}m")


# ---- volumes --------------------------------------------------------------------------------------

_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")
_OLD_DEFAULTS: Final[dict[str, Tree]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_volume(volume: Tree) -> None:
    if len(volume) == 1:  # a bare name
        volume["emptyDir"] = {}
        return
    default_volume_source(volume)
    for name in _WITH_MODE:
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    for item in (volume.get("downwardAPI") or {}).get("items", ()):
        _default_source(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items", ()):
            _default_source(item)
    if "image" in volume:
        image = volume["image"]
        image.setdefault("pullPolicy", pull_policy(image.get("reference", "")))
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template["spec"].setdefault("volumeMode", "Filesystem")
        round_up(template["spec"]["resources"])


def default_volume_source(holder: Tree) -> None:
    """Sources that pods and persistent volumes have in common."""
    for name, defaults in _OLD_DEFAULTS.items():
        if name in holder:
            for member, value in defaults.items():
                holder[name].setdefault(member, value)
