"""Warnings about Services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.warnings.texts import address

_EXTERNAL_NAME: Final = "ExternalName"
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"


def service_warnings(service: Tree) -> Iterator[str]:
    spec = service.get("spec") or {}
    type, addresses = spec.get("type"), spec.get("externalIPs") or ()
    headless = type == "ClusterIP" and spec.get("clusterIP") == "None"
    if _HINTS in (service["metadata"].get("annotations") or {}):
        instead = "service.kubernetes.io/topology-mode"
        yield f"annotation {_HINTS} is deprecated, please use {instead} instead"
    if spec.get("clusterIP") not in (None, "", "None"):
        for index, text in enumerate(spec.get("clusterIPs") or ()):
            yield from address(f"spec.clusterIPs[{index}]", text)
    if headless:
        yield from _ignored_if_headless(spec)
    for index, text in enumerate(addresses):
        yield from address(f"spec.externalIPs[{index}]", text)
    if addresses and not headless and type != _EXTERNAL_NAME:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("loadBalancerIP"):
        yield from address("spec.loadBalancerIP", spec["loadBalancerIP"])
    if type == _EXTERNAL_NAME and addresses:
        yield f'spec.externalIPs is ignored when spec.type is "{_EXTERNAL_NAME}"'
    if type != _EXTERNAL_NAME and spec.get("externalName"):
        yield f'spec.externalName is ignored when spec.type is not "{_EXTERNAL_NAME}"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _ignored_if_headless(spec: Tree) -> Iterator[str]:
    if spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.get("externalIPs"):
        yield "spec.externalIPs is ignored for headless services"
    if spec.get("sessionAffinity", "None") != "None":
        yield "spec.SessionAffinity is ignored for headless services"
