"""The types of objects, derived from lightkube-models on first use."""

from __future__ import annotations

from enum import Enum
from functools import cache, cached_property
from typing import Any, NamedTuple

from mooring.sandbox.apiserver.kinds import models
from mooring.sandbox.apiserver.kinds.facts import facts_of
from mooring.sandbox.apiserver.kinds.maps import values_of_map


class Scalar(Enum):
    STRING = "string"
    INTEGER = "integer"  # of 32 bits
    LONG = "long"  # of 64 bits
    NUMBER = "number"
    BOOLEAN = "boolean"
    BYTES = "bytes"
    QUANTITY = "quantity"
    TIME = "time"
    MICRO_TIME = "microTime"
    INT_OR_STRING = "intOrString"
    OBJECT = "object"  # any tree: managed fields
    RAW = "raw"  # a raw extension: an object, unless validation says otherwise
    ANY = "any"


class ListOf(NamedTuple):
    item: Type


class MapOf(NamedTuple):
    value: Type


class Field(NamedTuple):
    name: str
    """Its name in JSON."""
    type: Type
    required: bool


class ObjectType:
    """A type with named members, such as `PodSpec` of `core_v1`. One instance per type."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @cached_property
    def fields(self) -> dict[str, Field]:
        model = getattr(models.model_module(self.module), self.name)
        fields = {}
        facts = facts_of(str(self))
        for attribute, annotation in model.__annotations__.items():
            default = model.__dict__.get(attribute, ...)
            name, required = attribute, default is ...
            if isinstance(default, models.FieldInfo):
                name, required = default.metadata["json"], default.default is ...
            is_long = name in facts and facts[name].format == "int64"
            type = _read(self, name, annotation)
            fields[name] = Field(name, _long(type) if is_long else type, required)
        return fields

    @property
    def documentation(self) -> str:
        """The model's docstring: the description of the type, and a paragraph about each member."""
        return getattr(models.model_module(self.module), self.name).__doc__ or ""

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"


Type = Scalar | ListOf | MapOf | ObjectType

_NAMED = {
    "str": Scalar.STRING,
    "int": Scalar.INTEGER,
    "float": Scalar.NUMBER,
    "bool": Scalar.BOOLEAN,
    "resource.Quantity": Scalar.QUANTITY,
    "meta_v1.Time": Scalar.TIME,
    "meta_v1.MicroTime": Scalar.MICRO_TIME,
    "util_intstr.IntOrString": Scalar.INT_OR_STRING,
    "runtime.RawExtension": Scalar.RAW,
}


@cache
def object_type(module: str, name: str) -> ObjectType:
    return ObjectType(module, name)


def _read(owner: ObjectType, field: str, annotation: str) -> Type:
    """Parse an annotation such as `Optional[List[EnvVar]]` of one of `owner`'s fields."""
    if annotation.startswith("Optional["):
        return _read(owner, field, annotation[len("Optional[") : -1])
    if annotation.startswith("List["):
        return ListOf(_read(owner, field, annotation[len("List[") : -1]))
    if annotation == "dict":
        return MapOf(_values(owner, field))
    module, dot, name = annotation.rpartition(".")
    module = module if dot else owner.module
    scalar = _NAMED.get(annotation) or _NAMED.get(f"{module}.{name}")
    if scalar is not None:
        return scalar
    named = getattr(models.model_module(module), name)
    if named is Any:
        return Scalar.ANY
    return object_type(module, name) if isinstance(named, type) else Scalar.OBJECT  # an alias of Dict


def _long(type: Type) -> Type:
    """Return the type with integers of 64 bits in place of those of 32."""
    if isinstance(type, ListOf):
        return ListOf(_long(type.item))
    if isinstance(type, MapOf):
        return MapOf(_long(type.value))
    return Scalar.LONG if type is Scalar.INTEGER else type


def _values(owner: ObjectType, field: str) -> Type:
    named = values_of_map(owner.module, owner.name, field)
    if named.endswith("[]"):
        return ListOf(Scalar(named[:-2]))
    module, dot, name = named.rpartition(".")
    return object_type(module, name) if dot else Scalar(named)
