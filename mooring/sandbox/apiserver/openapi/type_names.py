"""The names of types in OpenAPI documents."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.kinds.types import ObjectType, Scalar

_MACHINERY: Final = "io.k8s.apimachinery.pkg"
_ELSEWHERE: Final = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "meta": f"{_MACHINERY}.apis.meta",
}
"""Groups whose types have another prefix than most."""

SCALARS: Final = {
    Scalar.QUANTITY: f"{_MACHINERY}.api.resource.Quantity",
    Scalar.TIME: f"{_MACHINERY}.apis.meta.v1.Time",
    Scalar.MICRO_TIME: f"{_MACHINERY}.apis.meta.v1.MicroTime",
    Scalar.INT_OR_STRING: f"{_MACHINERY}.util.intstr.IntOrString",
    Scalar.OBJECT: f"{_MACHINERY}.runtime.RawExtension",
    Scalar.RAW: f"{_MACHINERY}.runtime.RawExtension",
    Scalar.ANY: f"{_ELSEWHERE['apiextensions']}.v1.JSON",
}
"""Scalars with their own definitions."""

FIELDS: Final = f"{_MACHINERY}.apis.meta.v1.FieldsV1"
PATCH: Final = f"{_MACHINERY}.apis.meta.v1.Patch"


def type_name(type: ObjectType) -> str:
    """Return the name of a type's definition: `io.k8s.api.core.v1.Pod`."""
    group, _, version = type.module.rpartition("_")
    return f"{_ELSEWHERE.get(group, f'io.k8s.api.{group}')}.{version}.{type.name}"


def custom_name(group: str, version: str, kind: str) -> str:
    """Return the name of a custom kind's definition: the group reversed, like a Java package."""
    return ".".join((*reversed(group.split(".")), version, kind))
