"""Static types of CEL, written as cel-go writes them, and which of them can stand for which.

A type variable is a type whose name starts with `_`; `Substitutions` holds what is known about them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Type(NamedTuple):
    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


ANY: Final = Type("any")
BOOL: Final = Type("bool")
BYTES: Final = Type("bytes")
DOUBLE: Final = Type("double")
DURATION: Final = Type("duration")
DYN: Final = Type("dyn")
ERROR: Final = Type("!error!")
INT: Final = Type("int")
NULL: Final = Type("null")
STRING: Final = Type("string")
TIMESTAMP: Final = Type("timestamp")
UINT: Final = Type("uint")

_SIMPLE = frozenset({"bool", "bytes", "double", "int", "string", "uint"})
_WITH_PARAMETERS = frozenset({"list", "map", "type"})
_NOT_MESSAGES = frozenset({"any", "dyn", "null", "duration", "timestamp", "optional_type", "!error!"})
SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})

_FULL_NAMES: Final = {
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "null_type",
}

Substitutions = dict[Type, Type]
"""What stands for a type variable."""


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def full_name(of: Type) -> Type:
    """Return the type with the names that are not abbreviated."""
    return Type(_FULL_NAMES.get(of.name, of.name), tuple(map(full_name, of.parameters)))


def unwrap_optional(of: Type) -> tuple[Type, bool]:
    """Return the type of the value of an optional, and whether the type is an optional at all."""
    return (of.parameters[0], True) if of.name == "optional_type" else (of, False)


def is_dynamic(of: Type) -> bool:
    return of.name in ("dyn", "any")


def is_variable(of: Type) -> bool:
    return of.name.startswith("_")


def is_nullable(of: Type) -> bool:
    """Whether null is a value of the type: of messages and what the extensions add."""
    return not (of.name in _SIMPLE or of.name in _WITH_PARAMETERS) or of.name in ("any", "null")


def is_message(of: Type) -> bool:
    """Whether values of the type have fields."""
    return not (of.name in _SIMPLE | _WITH_PARAMETERS | _NOT_MESSAGES or is_variable(of))


def parse_type(text: str) -> Type:
    """Parse a type such as `map(string, list(int))`."""
    name, opening, inner = text.partition("(")
    if not opening:
        return Type(name)
    parameters, depth, start = [], 0, 0
    inner = inner[:-1]
    for at, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parameters.append(inner[start:at])
            start = at + 2
    return Type(name, tuple(parse_type(each) for each in (*parameters, inner[start:])))


def substitute(known: Substitutions, of: Type, *, finally_: bool = False) -> Type:
    """Replace type variables by what is known about them; at the end the unknown ones are dynamic."""
    if of in known:
        return substitute(known, known[of], finally_=finally_)
    if is_variable(of):
        return DYN if finally_ else of
    if not of.parameters:
        return of
    return Type(of.name, tuple(substitute(known, each, finally_=finally_) for each in of.parameters))


def assign(known: Substitutions, a: Type, b: Type) -> bool:
    """Return whether a value of one type can be used as one of the other; adds to `known` on the way, so the
    caller passes a copy if the answer may be no."""
    if is_variable(b):
        is_valid, has_value = _bind(known, a, b)
        if is_valid or has_value:
            return is_valid
    if is_variable(a):
        return _bind(known, b, a)[0]
    if is_dynamic(a) or is_dynamic(b) or ERROR in (a, b):
        return True
    if NULL in (a, b):
        return is_nullable(b if a == NULL else a)
    if a.name != b.name:
        return False
    if a.name == "type":
        return True
    return len(a.parameters) == len(b.parameters) and all(
        assign(known, x, y) for x, y in zip(a.parameters, b.parameters, strict=True)
    )


def _bind(known: Substitutions, of: Type, variable: Type) -> tuple[bool, bool]:
    """Let a variable stand for a type; return whether it can, and whether it stood for one before."""
    if of == variable:
        return True, True
    value = known.get(variable)
    if value is None:
        if _occurs(known, variable, of):
            return False, False
        known[variable] = of
        return True, False
    if of == value:
        return True, True
    if not assign(known, of, value):
        return False, True
    general = most_general(of, value)
    if not _occurs(known, variable, general):
        known[variable] = general
    return True, True


def _occurs(known: Substitutions, variable: Type, within: Type) -> bool:
    if variable == within:
        return True
    if is_variable(within):
        return within in known and _occurs(known, variable, known[within])
    return any(_occurs(known, variable, each) for each in within.parameters)


def most_general(a: Type, b: Type) -> Type:
    return a if _is_as_general(a, b) else b


def _is_as_general(a: Type, b: Type) -> bool:
    if is_dynamic(a) or is_variable(a):
        return True
    if is_dynamic(b) or is_variable(b) or a.name != b.name or len(a.parameters) != len(b.parameters):
        return False
    return a.name == "type" or all(
        _is_as_general(x, y) for x, y in zip(a.parameters, b.parameters, strict=True)
    )
