"""Validation of values by their schema, with kube-apiserver's messages."""

from __future__ import annotations

from typing import Any, Final

from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.errors import (
    Cause,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from mooring.sandbox.apiserver.objects import encode_json

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_FLOAT32: Final = 3.4028234663852886e38
_MOST_STEPS: Final = 4_000_000  # some seconds
NEW: Final = object()
"""Stands for an absent old value."""


def check(schema: Schema, value: Any, path: str = "", old: Any = NEW) -> list[Cause]:
    """Return the causes of an invalid value. What an update did not change is not checked again, and what has
    too many alternatives to check them all is invalid."""
    checker = _Checker(_Effort())
    try:
        checker.check(schema, value, path, old)
    except _TooMuchError:
        checker.causes.append(forbidden_value(path, "checking the value against its schema takes too long"))
    return checker.causes


class _TooMuchError(Exception):
    """Checking takes too many steps."""


class _Effort:
    """What checking a value may take, with all alternatives of its schema."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self, steps: int) -> None:
        """Raises _TooMuchError."""
        self._left -= steps
        if self._left < 0:
            raise _TooMuchError


class _Checker:
    """One walk: the causes found, and how much was checked, by which alternatives are compared."""

    def __init__(self, effort: _Effort) -> None:
        self.causes: list[Cause] = []
        self.seen = 0
        self._effort = effort

    def check(self, schema: Schema, value: Any, path: str, old: Any) -> None:
        if old is not NEW and old == value and type(old) is type(value):
            return
        self.seen += 1
        self._effort.spend(1)
        if value is None:
            if schema.types and not schema.nullable:
                self._wrong_type(schema, "null", path)
            self._check_enum(schema, value, path)
            return
        actual = json_type(value)
        if schema.types and not _is_of(schema, actual, value):
            self._wrong_type(schema, actual, path)
        self._check_alternatives(schema, value, path)
        if actual == "string":
            self._check_string(schema, value, path)
        elif actual in ("integer", "number"):
            self._check_number(schema, value, path)
        elif actual == "array":
            self._check_array(schema, value, path, old)
        self._check_enum(schema, value, path)
        if actual == "object":
            self._check_object(schema, value, path, old)

    def _wrong_type(self, schema: Schema, actual: str, path: str) -> None:
        expected = ",".join(schema.types)
        if actual == "number" and schema.format is not None and schema.format.name in ("int32", "int64"):
            expected, actual = schema.format.name, "float64"
        detail = f'{path} in body must be of type {expected}: "{actual}"'
        self._add("FieldValueTypeInvalid", path, f'Invalid value: "{actual}": {detail}')

    def _add(self, reason: str, path: str, message: str) -> None:
        self.causes.append(Cause(reason, path, message))

    def _composite(self, message: str) -> None:
        self._add("FieldValueInvalid", "<nil>", f'Invalid value: "": {message}')

    def _should(self, path: str, value: Any, what: str) -> None:
        if json_type(value) == "number":  # also for integers that Go can only hold as floats
            value = float(value)
        self.causes.append(invalid_value(path, value, f"{path} in body should {what}"))

    # ---- values of one type ------------------------------------------------------------------------

    def _check_string(self, schema: Schema, value: str, path: str) -> None:
        self._effort.spend(len(value) // 256)
        if schema.max_length is not None and len(value) > schema.max_length:
            self.causes.append(too_long(path, schema.max_length))
        elif schema.min_length is not None and len(value) < schema.min_length:
            self._should(path, value, f"be at least {schema.min_length} chars long")
        elif schema.pattern is not None and schema.pattern.search(value) is None:
            self._should(path, value, f"match '{schema.pattern_text}'")
        if schema.format is not None and schema.format.fits is not None and not schema.format.fits(value):
            shown = invalid_value(path, value, "").message.removesuffix(": ")
            quoted = shown.removeprefix("Invalid value: ")
            self._add(
                "FieldValueTypeInvalid",
                path,
                f"{shown}: {path} in body must be of type {schema.format.name}: {quoted}",
            )

    def _check_number(self, schema: Schema, value: float, path: str) -> None:
        self._check_range(schema, value, path)
        if schema.multiple_of is not None:
            self._check_multiple(schema.multiple_of, value, path)
        if schema.minimum is not None:
            least = _like(value, schema.minimum)
            if schema.exclusive_minimum and value <= least:
                self._should(path, value, f"be greater than {go_number(least)}")
            elif value < least:
                self._should(path, value, f"be greater than or equal to {go_number(least)}")
        if schema.maximum is not None:
            most = _like(value, schema.maximum)
            if schema.exclusive_maximum and value >= most:
                self._should(path, value, f"be less than {go_number(most)}")
            elif value > most:
                self._should(path, value, f"be less than or equal to {go_number(most)}")

    def _check_range(self, schema: Schema, value: float, path: str) -> None:
        name = schema.format.name if schema.format is not None else ""
        kind = schema.types[0] if len(schema.types) == 1 else ""
        if kind == "integer":
            low, high = _INT32 if name == "int32" else _INT64
            fits = isinstance(value, int) and low <= value <= high
        else:
            fits = kind != "number" or name != "float" or abs(value) <= _FLOAT32
        if not fits:
            form = f"with format {name}" if name else "(default format)"
            self._composite(f"Checked value must be of type {kind} {form} in {path}")

    def _check_multiple(self, factor: float, value: float, path: str) -> None:
        divisor = _like(value, factor)
        if divisor <= 0:
            detail = f"factor MultipleOf declared for {path} must be positive: {go_number(divisor)}"
            self.causes.append(invalid_value(path, divisor, detail))
        elif not float(value / divisor).is_integer():
            self._should(path, value, f"be a multiple of {go_number(factor)}")

    def _check_array(self, schema: Schema, value: list[Any], path: str, old: Any) -> None:
        if schema.items is not None:
            self._effort.spend(len(value) // 4)
            before = _items_before(schema, old)
            for index, item in enumerate(value):
                if item.__class__ is not schema.items.plain:
                    self.check(schema.items, item, f"{path}[{index}]", before.get(_key(schema, item), NEW))
        size = len(value)
        if schema.min_items is not None and size < schema.min_items:
            self._should_have(path, size, schema.min_items, "items")
        if schema.max_items is not None and size > schema.max_items:
            self._too_many(path, size, schema.max_items)

    def _check_object(self, schema: Schema, value: dict[str, Any], path: str, old: Any) -> None:
        size = len(value)
        self._effort.spend(size // 4 + len(schema.required) // 4)
        if schema.min_properties is not None and size < schema.min_properties:
            self._should_have(path, size, schema.min_properties, "properties")
        if schema.max_properties is not None and size > schema.max_properties:
            self._too_many(path, size, schema.max_properties)
        before = old if isinstance(old, dict) else {}
        for name, member in value.items():
            node = schema.member(name)
            if node is not None and member.__class__ is not node.plain:
                at = f"{path}.{name}" if path else name
                self.check(node, member, at, before.get(name, NEW))
        for name in schema.required:
            if name not in value:
                self.causes.append(required(f"{path}.{name}" if path else name))

    def _should_have(self, path: str, size: int, least: int, what: str) -> None:
        self._should(path, size, f"have at least {least} {what}")

    def _too_many(self, path: str, size: int, most: int) -> None:
        self._add("FieldValueTooMany", path, f"Too many: {size}: must have at most {most} items")

    def _check_enum(self, schema: Schema, value: Any, path: str) -> None:
        if schema.enum is None or (isinstance(value, str) and value in schema.enum_texts):
            return
        self._effort.spend(len(schema.enum))
        if not any(_same(value, one) for one in schema.enum):
            texts = [one if isinstance(one, str) else encode_json(one).decode() for one in schema.enum]
            self.causes.append(not_supported(path, value, texts))

    # ---- alternatives ------------------------------------------------------------------------------

    def _check_alternatives(self, schema: Schema, value: Any, path: str) -> None:
        if schema.any_of:
            self._check_any_of(schema.any_of, value, path)
        if schema.one_of:
            self._check_one_of(schema.one_of, value, path)
        if schema.all_of:
            self._check_all_of(schema.all_of, value, path)
        if schema.not_ is not None and not self._tried(schema.not_, value, path).causes:
            self._composite(f'"{path}" must not validate the schema (not)')

    def _tried(self, schema: Schema, value: Any, path: str) -> _Checker:
        checker = _Checker(self._effort)
        checker.check(schema, value, path, NEW)
        return checker

    def _check_any_of(self, schemas: list[Schema], value: Any, path: str) -> None:
        tried = []
        for schema in schemas:
            tried.append(self._tried(schema, value, path))
            if not tried[-1].causes:
                return
        self._composite(f'"{path}" must validate at least one schema (anyOf)')
        self.causes += _best(tried).causes

    def _check_one_of(self, schemas: list[Schema], value: Any, path: str) -> None:
        tried = [self._tried(schema, value, path) for schema in schemas]
        valid = sum(not one.causes for one in tried)
        if valid == 1:
            return
        count = f"Found {valid} valid alternatives" if valid else "Found none valid"
        self._composite(f'"{path}" must validate one and only one schema (oneOf). {count}')
        if not valid:
            self.causes += _best(tried).causes

    def _check_all_of(self, schemas: list[Schema], value: Any, path: str) -> None:
        tried = [self._tried(schema, value, path) for schema in schemas]
        for one in tried:
            self.causes += one.causes
        valid = sum(not one.causes for one in tried)
        if valid < len(tried):
            none = "" if valid else ". None validated"
            self._composite(f'"{path}" must validate all the schemas (allOf){none}')


def _best(tried: list[_Checker]) -> _Checker:
    """Return the alternative that the value came closest to: the one with the most checks."""
    return max(tried, key=lambda one: one.seen)


def json_type(value: Any) -> str:
    """Return JSON's name for the type of a value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer" if _INT64[0] <= value <= _INT64[1] else "number"
    if isinstance(value, float):
        return "number"
    if value is None:
        return "null"
    return "array" if isinstance(value, list) else "object"


def _is_of(schema: Schema, type: str, value: Any) -> bool:
    if type in schema.types or (type == "integer" and "number" in schema.types):
        return True
    return type == "number" and "integer" in schema.types and _is_whole(value)


def _is_whole(value: Any) -> bool:
    """Whether a float counts as an integer: if it is one, and small enough to be exact."""
    return isinstance(value, float) and value.is_integer() and abs(value) < 2**53


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _like(value: float, bound: float) -> float:
    """Return the bound as Kubernetes compares it: without its fraction if the value is an integer."""
    return int(bound) if isinstance(value, int) else bound


def go_number(value: float) -> str:
    """Format a number as Go does."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def _items_before(schema: Schema, old: Any) -> dict[object, Any]:
    """Return the items of the old list by key, if keys are unique."""
    if schema.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(schema, item): item for item in old}


def _key(schema: Schema, item: Any) -> object:
    if schema.list_type != "map" or not isinstance(item, dict):
        return None
    return tuple(encode_json(item.get(name)) for name in schema.map_keys)
