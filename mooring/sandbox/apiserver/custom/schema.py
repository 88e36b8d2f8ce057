"""The schema of a custom kind, parsed once per version so that writes can walk it quickly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from mooring.api.go_regexp import compile_pattern
from mooring.sandbox.apiserver.custom.formats import Format, format_of
from mooring.sandbox.apiserver.kinds.schema_leaves import SCALARS, is_leaf
from mooring.sandbox.apiserver.objects import Tree, encode_json

ABSENT: Final = object()
"""Stands for an absent default: null may be one."""

_PLAIN: Final = {"string": str, "boolean": bool}
_ONLY_TYPE: Final = frozenset({"description", "title", "type"})
_NO_DEMANDS: Final = frozenset({"default", "description", "nullable", "title", "type"})
_INT_OR_STRING: Final = ("integer", "string")


class Schema:
    """One node of a schema: the structure of a value, and its constraints.

    The schemas of members are made when they are first used: a definition may have tens of thousands.
    """

    __slots__ = (
        "_members",
        "_resources",
        "_tree",
        "_trees",
        "additional",
        "all_of",
        "any_of",
        "default",
        "default_size",
        "defaulted",
        "embedded",
        "enum",
        "enum_texts",
        "exclusive_maximum",
        "exclusive_minimum",
        "format",
        "items",
        "list_type",
        "map_keys",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "not_",
        "nullable",
        "one_of",
        "open",
        "pattern",
        "pattern_text",
        "plain",
        "preserve",
        "properties",
        "required",
        "types",
    )  # fmt: skip

    def __init__(self, tree: Mapping[str, Any]) -> None:
        kind = tree.get("type") or ""
        int_or_string = bool(tree.get("x-kubernetes-int-or-string"))
        self.types: tuple[str, ...] = (
            _INT_OR_STRING if int_or_string and not kind else (kind,) if kind else ()
        )
        self.nullable = bool(tree.get("nullable"))
        self.default: Any = tree["default"] if tree.get("default") is not None else ABSENT
        self.default_size = 0 if self.default is ABSENT else 8 + len(encode_json(self.default))
        """The bytes of the default and about that of its name."""
        self.preserve = bool(tree.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(tree.get("x-kubernetes-embedded-resource"))
        self._trees: dict[str, Tree] = tree.get("properties") or {}
        self._members: dict[str, Schema] = {}
        self.defaulted = [name for name, held in self._trees.items() if held.get("default") is not None]
        """The members that have a default."""
        additional = tree.get("additionalProperties")
        self.additional = Schema(additional) if isinstance(additional, dict) else None
        self.open = additional is True
        """Whether any members are allowed, without further constraints."""
        items = tree.get("items")
        self.items = Schema(items) if isinstance(items, dict) else None
        self.list_type: str = tree.get("x-kubernetes-list-type") or "atomic"
        self.map_keys: tuple[str, ...] = tuple(tree.get("x-kubernetes-list-map-keys") or ())
        self._tree = tree
        self._resources: bool | None = None
        self._read_demands(tree, kind)

    def _read_demands(self, tree: Mapping[str, Any], kind: str) -> None:
        self.enum: list[Any] | None = tree.get("enum") or None
        self.enum_texts = frozenset(one for one in self.enum or () if isinstance(one, str))
        self.format: Format | None = format_of(tree.get("format") or "", kind)
        self.pattern_text: str = tree.get("pattern") or ""
        self.pattern = compile_pattern(self.pattern_text) if self.pattern_text else None
        self.min_length: int | None = tree.get("minLength")
        self.max_length: int | None = tree.get("maxLength")
        self.minimum: float | None = tree.get("minimum")
        self.maximum: float | None = tree.get("maximum")
        self.exclusive_minimum = bool(tree.get("exclusiveMinimum"))
        self.exclusive_maximum = bool(tree.get("exclusiveMaximum"))
        self.multiple_of: float | None = tree.get("multipleOf")
        self.min_items: int | None = tree.get("minItems")
        self.max_items: int | None = tree.get("maxItems")
        self.min_properties: int | None = tree.get("minProperties")
        self.max_properties: int | None = tree.get("maxProperties")
        self.required: list[str] = tree.get("required") or []
        self.all_of = _schemas(tree.get("allOf"))
        self.any_of = _schemas(tree.get("anyOf"))
        self.one_of = _schemas(tree.get("oneOf"))
        not_ = tree.get("not")
        self.not_ = Schema(not_) if isinstance(not_, dict) else None
        self.plain = _PLAIN.get(kind) if set(tree) <= _NO_DEMANDS else None
        """The class of values without other constraints: most values by far."""

    @property
    def resources(self) -> bool:
        """Whether there may be embedded resources, with their own metadata, at or below this node."""
        if self._resources is None:
            self._resources = _has_resources(self._tree)
        return self._resources

    def member(self, name: str) -> Schema | None:
        """Return the schema of a member; None if there is none."""
        return self.property(name) or self.additional

    def property(self, name: str) -> Schema | None:
        """Return the schema of a member that has one of its own; None if it has not."""
        schema = self._members.get(name)
        if schema is None and name in self._trees:
            schema = self._members[name] = _member_schema(self._trees[name])
        return schema


def _member_schema(tree: Tree) -> Schema:
    """Return the schema of a member. Those with nothing but a scalar type are shared."""
    if tree.keys() <= _ONLY_TYPE and tree.get("type") in SCALARS:
        return _of_type(tree["type"])
    return Schema(tree)


@cache
def _of_type(kind: str) -> Schema:
    return Schema({"type": kind})


def _has_resources(tree: Mapping[str, Any]) -> bool:
    left: list[Any] = [tree]
    while left:
        one = left.pop()
        if not isinstance(one, dict) or is_leaf(one):
            continue
        if one.get("x-kubernetes-embedded-resource"):
            return True
        left += (one.get("properties") or {}).values()
        left += (one.get("additionalProperties"), one.get("items"))
    return False


def _schemas(trees: Iterable[Tree] | None) -> list[Schema]:
    return [Schema(tree) for tree in trees or ()]
