"""CEL selectors of devices: length, syntax, names, and the types that are certain.

cel-go checks the types of whole expressions. Here a type is `dyn` where it is not certain, such as that of a
macro's variable; mistakes with those appear when a selector is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from mooring.cel import CelCompileError, compile_expression
from mooring.cel.comprehensions import MACROS
from mooring.cel.functions import FUNCTIONS
from mooring.cel.syntax import Call, Ident, Index, Literal, Node, Select, UInt, parse_located
from mooring.sandbox.apiserver.errors import invalid_value, required, too_long
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes

_MAX_BYTES: Final = 10 * 1024
_DEVICE: Final = "device"
_DYNAMIC: Final = "dyn"
_ANY: Final = "any"  # of an attribute
_QUANTITY: Final = "kubernetes.Quantity"
_SEMVER: Final = "kubernetes.Semver"
_FIELDS: Final = {
    "driver": "string",
    "attributes": "map(string, map(string, any))",
    "capacity": f"map(string, map(string, {_QUANTITY}))",
    "allowMultipleAllocations": "bool",
}
_NUMBERS: Final = ("int", "uint", "double")
_SIMPLE: Final = ("bool", "string", *_NUMBERS, "bytes")
_CERTAIN: Final = frozenset({*_SIMPLE, _QUANTITY, _SEMVER})  # types that are equal to no other
_ORDERED: Final = frozenset(_SIMPLE)
_EQUALITIES: Final = ("==", "!=")
_RELATIONS: Final = (*_EQUALITIES, "<", "<=", ">", ">=")
_ARITHMETIC: Final = {
    "+": frozenset({*_NUMBERS, "string", "bytes"}),
    "-": frozenset(_NUMBERS),
    "*": frozenset(_NUMBERS),
    "/": frozenset(_NUMBERS),
    "%": frozenset({"int", "uint"}),
}

# Overloads of functions: the types of the arguments, for methods with the target first, and of the result.
_TEXT: Final = "string"
_FUNCTIONS: Final[Mapping[str, Sequence[tuple[Sequence[str], str]]]] = {
    "quantity": [([_TEXT], _QUANTITY)],
    "isQuantity": [([_TEXT], "bool")],
    "sign": [([_QUANTITY], "int")],
    "semver": [([_TEXT], _SEMVER), ([_TEXT, "bool"], _SEMVER)],
    "isSemver": [([_TEXT], "bool"), ([_TEXT, "bool"], "bool")],
    "isIP": [([_TEXT], "bool")],
    "isCIDR": [([_TEXT], "bool")],
    "isURL": [([_TEXT], "bool")],
}
_ONE_TEXT: Final = [([_TEXT, _TEXT], "bool")]
_COMPARABLE: Final = ([_QUANTITY, _QUANTITY], [_SEMVER, _SEMVER])
_ORDERS: Final = [(types, "bool") for types in _COMPARABLE]
_SUMS: Final = [([_QUANTITY, _QUANTITY], _QUANTITY), ([_QUANTITY, "int"], _QUANTITY)]
_METHODS: Final[Mapping[str, Sequence[tuple[Sequence[str], str]]]] = {
    "contains": _ONE_TEXT,
    "startsWith": _ONE_TEXT,
    "endsWith": _ONE_TEXT,
    "matches": _ONE_TEXT,
    "find": [([_TEXT, _TEXT], _TEXT)],
    "lowerAscii": [([_TEXT], _TEXT)],
    "upperAscii": [([_TEXT], _TEXT)],
    "trim": [([_TEXT], _TEXT)],
    "charAt": [([_TEXT, "int"], _TEXT)],
    "replace": [([_TEXT] * 3, _TEXT), ([_TEXT] * 3 + ["int"], _TEXT)],
    "substring": [([_TEXT, "int"], _TEXT), ([_TEXT, "int", "int"], _TEXT)],
    "compareTo": [(types, "int") for types in _COMPARABLE],
    "isGreaterThan": _ORDERS,
    "isLessThan": _ORDERS,
    "add": _SUMS,
    "sub": _SUMS,
    "isInteger": [([_QUANTITY], "bool")],
    "asInteger": [([_QUANTITY], "int")],
    "asApproximateFloat": [([_QUANTITY], "double")],
    "major": [([_SEMVER], "int")],
    "minor": [([_SEMVER], "int")],
    "patch": [([_SEMVER], "int")],
}
_SIZED: Final = ("string", "bytes", "list", "map", _ANY, _DYNAMIC)
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
    if result in (_DYNAMIC, _ANY, "bool"):
        return ""
    result = "kubernetes.DRADevice" if result == _DEVICE else result
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
            return self._index(node)
        return self._call(node) if isinstance(node, Call) else _DYNAMIC

    def _fail(self, node: Node, message: str) -> CelCompileError:
        return CelCompileError(message, self._offsets.get(id(node)))

    def _mismatch(self, node: Node, function: str, types: Sequence[str], target: str = "") -> CelCompileError:
        applied = f"'{target}{'.' if target else ''}({', '.join(types)})'"
        return self._fail(node, f"found no matching overload for '{function}' applied to {applied}")

    def _other_name(self, node: Ident) -> str:
        try:
            compile_expression(node.name, [])
        except CelCompileError as error:
            raise self._fail(node, str(error)) from None
        return _DYNAMIC

    def _select(self, node: Select) -> str:
        if isinstance(node.operand, Ident) and _compiles(f"{node.operand.name}.{node.field}"):
            return _DYNAMIC  # the name of a type, such as net.IP
        operand = self.type_of(node.operand)
        if operand == _DEVICE:
            if node.field not in _FIELDS:
                raise self._fail(node, f"undefined field '{node.field}'")
            return _DYNAMIC if node.optional else _FIELDS[node.field]
        return _DYNAMIC if node.optional else _value_type(operand)

    def _index(self, node: Index) -> str:
        operand, key = self.type_of(node.operand), self.type_of(node.key)
        if node.optional:
            return _DYNAMIC
        of_text = operand.startswith("map(string") and key in _CERTAIN and key != "string"
        if of_text or operand in _CERTAIN:
            raise self._mismatch(node, "_[_]", [operand, key])
        return _value_type(operand)

    def _call(self, node: Call) -> str:
        name = node.function
        if name in ("&&", "||"):
            for operand in node.args:
                self.type_of(operand)
            return "bool"
        if name in ("!", "neg"):
            return self._unary(node)
        if name in _RELATIONS:
            return self._relation(node)
        if name in _ARITHMETIC:
            return self._sum(node)
        if name == "?:":
            return self._conditional(node)
        if name == "in":
            return self._membership(node)
        if node.target is not None:
            return self._method(node)
        if name == "has" and len(node.args) == 1 and isinstance(node.args[0], Select):
            self.type_of(node.args[0])
            return "bool"
        if name.isidentifier() and name != "has":
            return self._function(node)
        return _DYNAMIC

    def _unary(self, node: Call) -> str:
        operand = self.type_of(node.args[0])
        symbol, allowed = ("!_", ("bool",)) if node.function == "!" else ("-_", ("int", "double"))
        if operand in _CERTAIN and operand not in allowed:
            raise self._mismatch(node, symbol, [operand])
        return "bool" if symbol == "!_" else operand if operand in allowed else _DYNAMIC

    def _relation(self, node: Call) -> str:
        left, right = types = [self.type_of(operand) for operand in node.args]
        if node.function in _EQUALITIES:
            wrong = left != right and {left, right} <= _CERTAIN
        else:
            numbers = left in _NUMBERS and right in _NUMBERS
            wrong = {left, right} <= _CERTAIN and not numbers and (left != right or left not in _ORDERED)
        if wrong:
            raise self._mismatch(node, f"_{node.function}_", types)
        return "bool"

    def _sum(self, node: Call) -> str:
        left, right = types = [self.type_of(operand) for operand in node.args]
        if {left, right} <= _CERTAIN and (left != right or left not in _ARITHMETIC[node.function]):
            raise self._mismatch(node, f"_{node.function}_", types)
        return left if left == right and left in _CERTAIN else _DYNAMIC

    def _conditional(self, node: Call) -> str:
        _, yes, no = types = [self.type_of(operand) for operand in node.args]
        if yes != no and {yes, no} <= _CERTAIN:
            raise self._mismatch(node, "_?_:_", types)
        return yes if yes == no else _DYNAMIC

    def _membership(self, node: Call) -> str:
        item, container = types = [self.type_of(operand) for operand in node.args]
        of_text = container.startswith("map(string") and item in _CERTAIN and item != "string"
        if of_text or (item in _CERTAIN and container in _CERTAIN):
            raise self._mismatch(node, "@in", types)
        return "bool"

    def _method(self, node: Call) -> str:
        assert node.target is not None
        if isinstance(node.target, Ident) and f"{node.target.name}.{node.function}" in FUNCTIONS:
            return _DYNAMIC  # in a namespace, such as sets.contains
        if (node.function, len(node.args)) in MACROS or node.function not in _METHODS:
            if node.function == "size" and not node.args:
                return self._size(node, self.type_of(node.target), target=True)
            return _DYNAMIC  # macros have variables of their own: not looked into
        target = self.type_of(node.target)
        types = [self.type_of(arg) for arg in node.args]
        result = _choose(_METHODS[node.function], [target, *types])
        if result is None:
            raise self._mismatch(node, node.function, types, target)
        return result

    def _size(self, node: Call, argument: str, *, target: bool = False) -> str:
        if argument in _CERTAIN and argument not in _SIZED:
            raise self._mismatch(node, "size", [] if target else [argument], argument if target else "")
        return "int"

    def _function(self, node: Call) -> str:
        types = [self.type_of(arg) for arg in node.args]
        if node.function == "size" and len(types) == 1:
            return self._size(node, types[0])
        if node.function not in _FUNCTIONS:
            self._check_function(node)
            return _DYNAMIC
        result = _choose(_FUNCTIONS[node.function], types)
        if result is None:
            raise self._mismatch(node, node.function, types)
        return result

    def _check_function(self, node: Call) -> None:
        try:
            compile_expression(f"{node.function}({', '.join('device' for _ in node.args)})", [_DEVICE])
        except CelCompileError as error:
            if str(error).startswith("undeclared reference"):
                raise self._fail(node, str(error)) from None


def _choose(overloads: Sequence[tuple[Sequence[str], str]], types: Sequence[str]) -> str | None:
    """Return the type of the result, `dyn` where several overloads apply; None if no overload does."""
    results = {
        result
        for expected, result in overloads
        if len(expected) == len(types)
        and all(t == e or t not in _CERTAIN for t, e in zip(types, expected, strict=True))
    }
    if not results:
        return None
    return results.pop() if len(results) == 1 else _DYNAMIC


def _value_type(container: str) -> str:
    """Return the type of a map's values."""
    return container.partition(", ")[2][:-1] if container.startswith("map(") else _DYNAMIC


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
    types = {int: "int", float: "double", str: "string", bytes: "bytes", type(None): "null_type"}
    return types.get(value.__class__, _DYNAMIC)
