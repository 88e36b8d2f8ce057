"""The functions and operators that selectors and policies of Kubernetes v1.36 can call, with their types.

`declarations.txt` lists the overloads below the name of their function: identifier, types of the arguments
(of a method, with the target before the dot), type of the result. Capital letters are type parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from mooring.cel.types import Type, is_variable, parse_type

OPERATORS: Final = {
    **{sign: f"_{sign}_" for sign in ("||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")},
    "!": "!_",
    "neg": "-_",
    "in": "@in",
    "?:": "_?_:_",
}
"""Names of operators in declarations and messages, by the function of their call in a syntax tree."""


class Overload(NamedTuple):
    name: str
    is_method: bool
    arguments: tuple[Type, ...]
    result: Type
    variables: tuple[Type, ...]


@cache
def declarations() -> Mapping[str, Sequence[Overload]]:
    """Return the overloads of every function."""
    functions: dict[str, list[Overload]] = {}
    overloads: list[Overload] = []
    for line in files("mooring.cel").joinpath("declarations.txt").read_text().splitlines():
        if not line.startswith(" "):
            overloads = functions[line] = []
            continue
        name, _, signature = line.strip().partition(" ")
        arguments, result = _split(signature)
        overloads.append(_overload(name, arguments, parse_type(_with_variables(result))))
    return functions


def _split(signature: str) -> tuple[str, str]:
    """Split `(list(A), int) A` before its result."""
    depth = 0
    for at, character in enumerate(signature):
        depth += (character == "(") - (character == ")")
        if character == " " and not depth:
            return signature[:at], signature[at + 1 :]
    raise ValueError(signature)


def _overload(name: str, arguments: str, result: Type) -> Overload:
    target, dot, rest = arguments.partition(".(")
    is_method = bool(dot) and not arguments.startswith("(")
    listed = f"({', '.join(filter(None, (target, rest[:-1])))})" if is_method else arguments
    types = parse_type(_with_variables("f" + listed)).parameters if listed != "()" else ()
    variables = dict.fromkeys(v for each in (*types, result) for v in _variables(each))
    return Overload(name, is_method, types, result, tuple(variables))


def _with_variables(text: str) -> str:
    """Mark type parameters, which are single capital letters."""
    marked = ""
    for at, character in enumerate(text):
        is_alone = not (text[at - 1 : at].isalnum() or text[at + 1 : at + 2].isalnum())
        marked += f"_{character}" if character.isupper() and is_alone else character
    return marked


def _variables(of: Type) -> list[Type]:
    if is_variable(of):
        return [of]
    return [variable for each in of.parameters for variable in _variables(each)]
