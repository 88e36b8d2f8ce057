"""CEL selectors of devices: length, syntax, names, and the types that are certain.

cel-go checks the types of whole expressions. Here only the fields of `device`, comparisons between simple
types and the type of the result are checked; other mistakes appear when a selector is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from mooring.cel import CelCompileError, compile_expression
from mooring.cel.syntax import Call, Ident, Index, Literal, Node, Select, UInt, parse_located
from mooring.sandbox.apiserver.errors import invalid_value, required, too_long
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes

_MAX_BYTES: Final = 10 * 1024
_DYNAMIC: Final = "dyn"
_DEVICE: Final = "device"
_FIELDS: Final = {
    "driver": "string",
    "attributes": "map",
    "capacity": "map",
    "allowMultipleAllocations": "bool",
}
_METHODS: Final = {
    "contains": "bool", "endsWith": "bool", "isGreaterThan": "bool", "isLessThan": "bool", "matches": "bool",
    "startsWith": "bool", "compareTo": "int", "size": "int", "lowerAscii": "string", "upperAscii": "string",
}  # fmt: skip
_SIMPLE: Final = frozenset({"bool", "string", "int", "uint", "double", "bytes"})
_NUMBERS: Final = frozenset({"int", "uint", "double"})
_RELATIONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_EXPECTED: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)


def device_selector(path: str, selector: Tree) -> Causes:
    cel = selector.get("cel")
    if cel is None:
        yield required(f"{path}.cel")
        return
    expression = cel.get("expression", "")
    if len(expression.encode()) > _MAX_BYTES:
        yield too_long(f"{path}.cel.expression", _MAX_BYTES)
        return
    problem = _problem(expression)
    if problem:
        yield invalid_value(f"{path}.cel.expression", expression, problem)


@lru_cache(maxsize=1024)
def _problem(expression: str) -> str:
    """Return what is wrong with an expression, nothing if it compiles."""
    try:
        node, offsets = parse_located(expression)
        result = _Checker(offsets).type_of(node)
        compile_expression(expression, [_DEVICE])
    except CelCompileError as error:
        return f"compilation failed: {_located(expression, error)}"
    except RecursionError:
        return "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    if result in (_DYNAMIC, "bool"):
        return ""
    return f"must evaluate to bool or the unknown type, not {result}"


def _located(expression: str, error: CelCompileError) -> str:
    """Return the error with its line and column, and the line with a mark below, as cel-go shows them."""
    offset, message = error.offset or 0, str(error)
    if message.startswith("syntax error"):
        token = error.unexpected or "<EOF>"
        message = f"Syntax error: mismatched input '{token}' expecting {_EXPECTED}"
    line = expression.count("\n", 0, offset) + 1
    start = expression.rfind("\n", 0, offset) + 1
    column = offset - start
    shown = (expression.splitlines() or [""])[line - 1] if expression else ""
    where = f"ERROR: <input>:{line}:{column + 1 if expression else 0}: {message}"
    return f"{where}\n | {shown}\n | {'.' * column}^" if expression else where


class _Checker:
    """Types of the nodes of one expression, as far as they are certain."""

    def __init__(self, offsets: Mapping[int, int]) -> None:
        self._offsets = offsets

    def type_of(self, node: Node) -> str:
        if isinstance(node, Literal):
            return _literal(node)
        if isinstance(node, Ident):
            return _DEVICE if node.name == _DEVICE else self._other_name(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Index):
            self.type_of(node.operand)
            return _DYNAMIC
        return self._call(node) if isinstance(node, Call) else _DYNAMIC

    def _fail(self, node: Node, message: str) -> CelCompileError:
        return CelCompileError(message, self._offsets.get(id(node)))

    def _other_name(self, node: Ident) -> str:
        try:
            compile_expression(node.name, [])
        except CelCompileError as error:
            raise self._fail(node, str(error)) from None
        return _DYNAMIC

    def _select(self, node: Select) -> str:
        if isinstance(node.operand, Ident) and _compiles(f"{node.operand.name}.{node.field}"):
            return _DYNAMIC  # the name of a type, such as net.IP
        if self.type_of(node.operand) != _DEVICE:
            return _DYNAMIC
        if node.field not in _FIELDS:
            raise self._fail(node, f"undefined field '{node.field}'")
        return _DYNAMIC if node.optional else _FIELDS[node.field]

    def _call(self, node: Call) -> str:
        name = node.function
        if name in ("&&", "||", "!"):
            for operand in node.args:
                self.type_of(operand)
            return "bool"
        if name in _RELATIONS:
            return self._relation(node)
        if name == "in":
            return "bool"
        if node.target is not None:  # macros have variables of their own: not looked into
            return _METHODS.get(name, _DYNAMIC)
        if name.isidentifier() and name not in ("has", "neg"):
            self._check_function(node)
        return _DYNAMIC

    def _check_function(self, node: Call) -> None:
        try:
            compile_expression(f"{node.function}({', '.join('device' for _ in node.args)})", [_DEVICE])
        except CelCompileError as error:
            if str(error).startswith("undeclared reference"):
                raise self._fail(node, str(error)) from None

    def _relation(self, node: Call) -> str:
        left, right = (self.type_of(operand) for operand in node.args)
        if left == right or left not in _SIMPLE or right not in _SIMPLE:
            return "bool"
        if node.function not in ("==", "!=") and {left, right} <= _NUMBERS:
            return "bool"
        applied = f"applied to '({left}, {right})'"
        raise self._fail(node, f"found no matching overload for '_{node.function}_' {applied}")


def _compiles(expression: str) -> bool:
    try:
        compile_expression(expression, [])
    except CelCompileError:
        return False
    return True


def _literal(node: Literal) -> str:
    value = node.value
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, UInt):
        return "uint"
    types = {int: "int", float: "double", str: "string", bytes: "bytes"}
    return types.get(value.__class__, _DYNAMIC)
