"""Checking CEL expressions before they are stored: syntax, names, and the types that are certain.

cel-go knows the types of all functions. Here the result of less common ones is `dyn`; mistakes with those
appear when an expression is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.api.go_regexp import PatternError, compile_pattern
from mooring.cel import CelCompileError, CelError, compile_expression, times
from mooring.cel.comprehensions import MACROS
from mooring.cel.functions import FUNCTIONS as LIBRARY
from mooring.cel.functions import METHODS as LIBRARY_METHODS
from mooring.cel.syntax import (
    Call,
    Ident,
    Index,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    UInt,
    parse_located,
    qualified_name,
)
from mooring.sandbox.apiserver.validation.expression_types import (
    ANY,
    BOOL,
    DYNAMIC,
    FUNCTIONS,
    INT,
    METHODS,
    NULL,
    OPERATORS,
    TEXT,
    UNKNOWN,
    choose,
    is_message,
    parameters,
    unify,
)

_FULL_NAMES: Final = {
    ANY: "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    NULL: "null_type",
}
_QUANTIFIERS: Final = ("all", "exists")
_COUNTS: Final = ("exists_one", "existsOne")
_SIZED: Final = ("string", "bytes", ANY, DYNAMIC)
_EXPECTED: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
_LITERALS: Final[Mapping[str, Callable[[str], object]]] = {
    "matches": compile_pattern,
    "duration": times.duration,
    "timestamp": times.timestamp,
}
_TOO_DEEP: Final = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"


class Declarations(NamedTuple):
    """What an expression may refer to."""

    variables: Mapping[str, str]
    """Types of the variables."""
    fields: Mapping[str, Mapping[str, str]]
    """Types of the fields of types that have fields."""
    structs: Collection[str] = ()
    """Types whose values an expression may write, which stand for all types below them, too."""


class CheckedExpression(NamedTuple):
    """The type of an expression, or what is wrong with it."""

    type: str
    problem: str = ""
    dynamic: bool = False
    """Whether the type is certain to be dyn, not only unknown here."""


def check_expression(expression: str, declarations: Declarations) -> CheckedExpression:
    try:
        node, offsets = parse_located(expression)
        checker = Checker(offsets, declarations)
        result = checker.type_of(node)
        compile_expression(expression, declarations.variables, declarations.structs)
        if checker.mixed:
            raise checker.mixed[0]
    except CelCompileError as error:
        return CheckedExpression(DYNAMIC, f"compilation failed: {_located(expression, error)}")
    except RecursionError:
        return CheckedExpression(DYNAMIC, f"compilation failed: {_TOO_DEEP}")
    return CheckedExpression(result, dynamic=result == DYNAMIC and _is_selection(node))


def _is_selection(node: Node) -> bool:
    while isinstance(node, Select | Index) and not node.optional:
        node = node.operand
    return isinstance(node, Ident)


def full_name(of: str) -> str:
    """Return a type as cel-go writes it where the type itself is what is wrong."""
    for name, full in _FULL_NAMES.items():
        of = re.sub(rf"\b{name}\b", full, of)
    return of


def _located(expression: str, error: CelCompileError) -> str:
    """Return the error with its line and column, and the line with a mark below, as cel-go shows them."""
    offset, message = error.offset or 0, str(error)
    if message.startswith("syntax error"):
        token = error.unexpected or "<EOF>"
        message = f"Syntax error: mismatched input '{token}' expecting {error.expected or _EXPECTED}"
        if error.expected == ")":
            message = f"Syntax error: missing ')' at '{token}'"
        if error.expected == ".":
            message = "Syntax error: no viable alternative at input '.'"
    line = expression.count("\n", 0, offset) + 1
    start = expression.rfind("\n", 0, offset) + 1
    column = offset - start
    shown = (expression.splitlines() or [""])[line - 1] if expression else ""
    where = f"ERROR: <input>:{line}:{column + 1 if expression else 0}: {message}"
    return f"{where}\n | {shown}\n | {'.' * column}^" if expression else where


class Checker:
    """Types of the nodes of one expression, as far as they are certain."""

    def __init__(self, offsets: Mapping[int, int], declarations: Declarations) -> None:
        self._offsets = offsets
        self._declarations = declarations
        self._variables = declarations.variables
        self.mixed: list[CelCompileError] = []
        """Literals with elements of different types, which are only reported if all else is right."""

    def type_of(self, node: Node) -> str:
        if isinstance(node, Literal):
            return _literal(node)
        if isinstance(node, Ident):
            return self._variables.get(node.name) or self._other_name(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Index):
            return self._index(node)
        if isinstance(node, ListNode):
            return f"list({self._common([item for item, _ in node.items])})"
        if isinstance(node, MapNode):
            keys, values = [key for key, _, _ in node.entries], [value for _, value, _ in node.entries]
            return f"map({self._common(keys)}, {self._common(values)})"
        if isinstance(node, StructNode):
            return self._struct(node)
        assert isinstance(node, Call), node
        return self._call(node)

    def _fail(self, node: Node, message: str) -> CelCompileError:
        return CelCompileError(message, self._offsets.get(id(node)))

    def _mismatch(self, node: Node, function: str, types: Sequence[str], target: str = "") -> CelCompileError:
        applied = f"'{target}{'.' if target else ''}({', '.join(types)})'"
        return self._fail(node, f"found no matching overload for '{function}' applied to {applied}")

    def _common(self, nodes: Sequence[Node]) -> str:
        """Return the type of all elements of a literal."""
        common = ""
        for node in nodes:
            found = self.type_of(node)
            joined = unify(common, found) if common else found
            if joined is None:
                self.mixed.append(self._fail(node, f"expected type '{common}' but found '{found}'"))
            common = joined or DYNAMIC
        return common or DYNAMIC

    def _other_name(self, node: Ident) -> str:
        try:
            compile_expression(node.name, [])
        except CelCompileError as error:
            raise self._fail(node, str(error)) from None
        return DYNAMIC

    def _struct(self, node: StructNode) -> str:
        if node.name.partition(".")[0] not in self._declarations.structs:
            raise self._fail(node, f"undeclared reference to '{node.name}' (in container '')")
        declared = self._declarations.fields.get(node.name)
        for entry in node.fields:
            name, value, _ = entry
            actual = self.type_of(value)
            expected = DYNAMIC if declared is None else declared.get(name, "")
            if not expected or unify(expected, actual) is None:
                why = f"expected type of field '{name}' is '{expected}' but provided type is '{actual}'"
                raise CelCompileError(why, self._offsets.get(id(entry)))
        return node.name

    def _select(self, node: Select) -> str:
        if (qualified := qualified_name(node)) in self._variables:
            return self._variables[qualified]
        if isinstance(node.operand, Ident) and _compiles(f"{node.operand.name}.{node.field}"):
            return DYNAMIC  # the name of a type, such as net.IP
        operand = self.type_of(node.operand)
        fields = self._declarations.fields.get(operand)
        if fields is not None:
            if node.field not in fields:
                raise self._fail(node, f"undefined field '{node.field}'")
            return DYNAMIC if node.optional else fields[node.field]
        if operand.partition(".")[0] in self._declarations.structs:
            return DYNAMIC
        if node.optional or operand in UNKNOWN:
            return DYNAMIC
        if not operand.startswith("map("):
            raise self._fail(node, _no_field(operand))
        return parameters(operand)[1]

    def _index(self, node: Index) -> str:
        operand, key = self.type_of(node.operand), self.type_of(node.key)
        if node.optional or operand in (*UNKNOWN, NULL):  # null may be an optional list
            return DYNAMIC
        inner = parameters(operand)
        if not inner or unify(key, inner[0] if len(inner) == 2 else INT) is None:
            raise self._mismatch(node, "_[_]", [operand, key])
        return inner[-1]

    def _call(self, node: Call) -> str:
        name = node.function
        if node.target is not None:
            return self._method(node)
        if name in ("&&", "||"):
            for operand in node.args:
                self._expect_bool(operand, self.type_of(operand))
            return BOOL
        if name == "has" and len(node.args) == 1:
            if not isinstance(node.args[0], Select):
                raise self._fail(node.args[0], "invalid argument to has() macro")
            self.type_of(node.args[0])
            return BOOL
        types = [self.type_of(arg) for arg in node.args]
        if name in OPERATORS:
            return self._operator(node, types)
        if name in ("==", "!="):
            if unify(*types) is None:
                raise self._mismatch(node, f"_{name}_", types)
            return BOOL
        if name == "?:":
            return self._conditional(node, types)
        if name == "in":
            return self._membership(node, types)
        return self._function(node, types)

    def _expect_bool(self, node: Node, found: str) -> None:
        if unify(BOOL, found) is None:
            raise self._fail(node, f"expected type 'bool' but found '{found}'")

    def _operator(self, node: Call, types: Sequence[str]) -> str:
        result = choose(OPERATORS[node.function], types)
        lists = node.function == "+" and all(t.startswith("list(") for t in types)
        if lists:
            result = unify(*types)
        if result is None:
            symbol = {"!": "!_", "neg": "-_"}.get(node.function, f"_{node.function}_")
            raise self._mismatch(node, symbol, types)
        return result

    def _conditional(self, node: Node, types: Sequence[str]) -> str:
        test, yes, no = types
        result = unify(yes, no)
        if result is None or unify(test, BOOL) is None:
            raise self._mismatch(node, "_?_:_", types)
        return result

    def _membership(self, node: Call, types: Sequence[str]) -> str:
        item, container = types
        inner = parameters(container)
        if container not in UNKNOWN and (not inner or unify(item, inner[0]) is None):
            raise self._mismatch(node, "@in", types)
        return BOOL

    def _method(self, node: Call) -> str:
        assert node.target is not None
        if node.function == "bind" and node.target == Ident("cel") and len(node.args) == 3:
            return self._bind(node)
        if isinstance(node.target, Ident) and f"{node.target.name}.{node.function}" in LIBRARY:
            for arg in node.args:
                self.type_of(arg)
            return DYNAMIC  # in a namespace, such as sets.contains
        if (node.function, len(node.args)) in MACROS:
            return self._macro(node, node.target)
        target = self.type_of(node.target)
        # What is formatted may be of different types.
        checker = Checker(self._offsets, self._declarations) if node.function == "format" else self
        types = [checker.type_of(arg) for arg in node.args]
        if node.function == "size" and not node.args:
            return self._size(node, target, target=True)
        if node.function not in METHODS:
            self._check_method(node)
            return DYNAMIC
        if node.function == "matches" and len(node.args) == 1:
            self._check_literal(node.args[0], node.function)
        result = choose(METHODS[node.function], [target, *types])
        if result is None:
            raise self._mismatch(node, node.function, types, target)
        return result

    def _check_literal(self, node: Node, function: str) -> None:
        """Check a pattern, duration or timestamp that is a literal, which cel-go reads in advance."""
        if isinstance(node, Literal) and isinstance(node.value, str):
            try:
                _LITERALS[function](node.value)
            except (CelError, PatternError):
                raise self._fail(node, f"invalid {function} argument") from None

    # ---- macros

    def _inside(self, variables: Mapping[str, str]) -> Checker:
        declared = self._declarations._replace(variables={**self._variables, **variables})
        checker = Checker(self._offsets, declared)
        checker.mixed = self.mixed
        return checker

    def _bind(self, node: Call) -> str:
        name, value, body = node.args
        if not isinstance(name, Ident):
            return DYNAMIC  # refused when it is compiled
        return self._inside({name.name: self.type_of(value)}).type_of(body)

    def _macro(self, node: Call, target: Node) -> str:
        optional = node.function in ("optMap", "optFlatMap")
        names, body = node.args[:1], node.args[1:]
        if len(body) > 1 and isinstance(body[0], Ident) and node.function != "map":
            names, body = node.args[:2], node.args[2:]
        found = self.type_of(target)
        types = [DYNAMIC] if optional else self._elements(target, found, len(names))
        inside = self._inside(
            {name.name: of for name, of in zip(names, types, strict=True) if isinstance(name, Ident)}
        )
        results = [inside.type_of(each) for each in body]
        if node.function in _QUANTIFIERS:
            self._expect_bool(body[0], results[0])
            return BOOL
        if node.function in _COUNTS:
            self._conditional(node, [results[0], INT, INT])
            return BOOL
        if node.function == "filter":
            kept = f"list({types[0]})"
            return self._conditional(node, [results[0], kept, kept])
        return f"list({results[-1]})" if node.function in ("map", "transformList") else DYNAMIC

    def _elements(self, node: Node, container: str, variables: int) -> list[str]:
        """Return the types of a macro's variables."""
        if container == DYNAMIC:
            return [DYNAMIC] * variables
        inner = parameters(container)
        if not inner:
            problem = "cannot be range of a comprehension (must be list, map, or dynamic)"
            raise self._fail(node, f"expression of type '{container}' {problem}")
        if variables == 1:
            return inner[:1]
        return inner if len(inner) == 2 else [INT, *inner]

    # ---- functions

    def _size(self, node: Call, argument: str, *, target: bool = False) -> str:
        if argument not in _SIZED and not parameters(argument):
            raise self._mismatch(node, "size", [] if target else [argument], argument if target else "")
        return INT

    def _function(self, node: Call, types: Sequence[str]) -> str:
        if node.function == "size" and len(types) == 1:
            return self._size(node, types[0])
        if node.function not in FUNCTIONS:
            self._check_function(node)
            return TEXT if node.function == "string" else DYNAMIC
        if node.function in _LITERALS and len(node.args) == 1:
            self._check_literal(node.args[0], node.function)
        result = choose(FUNCTIONS[node.function], types)
        if result is None:
            raise self._mismatch(node, node.function, types)
        return result

    def _check_function(self, node: Call) -> None:
        try:
            compile_expression(f"{node.function}({', '.join('x' for _ in node.args)})", ["x"])
        except CelCompileError as error:
            if str(error).startswith("undeclared reference"):
                raise self._fail(node, str(error)) from None

    def _check_method(self, node: Call) -> None:
        if node.function not in LIBRARY_METHODS:
            raise self._fail(node, f"undeclared reference to '{node.function}' (in container '')")


def _no_field(operand: str) -> str:
    if is_message(operand):
        return f"unexpected failed resolution of '{operand}'"
    return f"type '{operand}' does not support field selection"


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
    types = {int: "int", float: "double", str: "string", bytes: "bytes", type(None): NULL}
    return types.get(value.__class__, DYNAMIC)
