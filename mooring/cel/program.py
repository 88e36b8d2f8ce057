"""From a syntax tree to closures: compiled once, evaluated often.

Every node becomes a function of a scope, which holds the variables and what is left of the cost budget. The
budget is charged where work can multiply: for each step of a comprehension, the size of its body, and in
functions whose work grows with their arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mooring.cel import comprehensions, functions
from mooring.cel.cel_errors import CelCompileError, CelError, CostLimitExceededError, no_such_overload
from mooring.cel.mismatches import naming
from mooring.cel.operators import ARITHMETIC, COMPARISONS
from mooring.cel.scope import Evaluate, Scope
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
    parse,
    qualified_name,
)
from mooring.cel.values import Optional, StructValue, has, look_up, look_up_optional

COST_LIMIT = 1_000_000


class Program:
    """A compiled expression."""

    __slots__ = ("_evaluate", "_size", "source")

    def __init__(self, source: str, evaluate: Evaluate, size: int) -> None:
        self.source = source
        self._evaluate = evaluate
        self._size = size

    def evaluate(self, variables: Mapping[str, Any], cost_limit: int | list[int] = COST_LIMIT) -> Any:
        """The value for these variables; CelError where there is none. A limit in a list is reduced by the
        cost."""
        scope = Scope(variables, cost_limit)
        scope.spend(self._size)
        try:
            return self._evaluate(scope)
        except RecursionError:
            raise CelError("expression is nested too deeply") from None


def compile_expression(source: str, variables: Iterable[str], structs: Iterable[str] = ()) -> Program:
    """Compile an expression over these variables; CelCompileError where that is impossible. `structs` are the
    types with fields that it may use, which stand for all types below them, too."""
    compiler = Compiler(frozenset(variables), structs=frozenset(structs))
    try:
        return Program(source, compiler.compile(parse(source)), compiler.size)
    except RecursionError:
        raise CelCompileError("expression is nested too deeply") from None


class Compiler:
    """Compiles the nodes of one expression. `names` are the variables in sight, of which `lazy` are those
    that `cel.bind` introduced."""

    def __init__(
        self,
        names: frozenset[str],
        lazy: frozenset[str] = frozenset(),
        structs: frozenset[str] = frozenset(),
    ) -> None:
        self.names = names
        self._lazy = lazy
        self._structs = structs
        self.size = 0

    def compile(self, node: Node) -> Evaluate:
        self.size += 1
        if isinstance(node, Literal):
            value = node.value
            return lambda scope: value
        if isinstance(node, Ident):
            return self._ident(node.name)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Index):
            return self._index(node)
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, StructNode):
            return self._struct(node)
        assert isinstance(node, Call), node
        return self._call(node)

    def inside(self, *names: str, lazy: bool = False) -> Compiler:
        """A compiler for the body of a macro, which sees the macro's variables, too."""
        return Compiler(
            self.names.union(names),
            self._lazy.union(names) if lazy else self._lazy.difference(names),
            self._structs,
        )

    def _ident(self, name: str) -> Evaluate:
        if name in self._lazy:
            return lambda scope: scope.variables[name].value
        if name in self.names:
            return lambda scope: scope.variables[name]
        constant = functions.TYPES.get(name)
        if constant is None:
            raise CelCompileError(f"undeclared reference to '{name}' (in container '')")
        return lambda scope: constant

    def _select(self, node: Select) -> Evaluate:
        qualified = qualified_name(node)
        if qualified in self.names:
            return lambda scope: scope.variables[qualified]
        if qualified in functions.TYPES and qualified.partition(".")[0] not in self.names:
            constant = functions.TYPES[qualified]
            return lambda scope: constant
        operand, field = self.compile(node.operand), node.field
        if node.optional:
            return lambda scope: look_up_optional(operand(scope), field)

        def select(scope: Scope) -> Any:
            value = operand(scope)
            # Nearly all operands are maps that have the field.
            return value[field] if type(value) is dict and field in value else look_up(value, field)

        return select

    def _index(self, node: Index) -> Evaluate:
        operand, key = self.compile(node.operand), self.compile(node.key)
        if node.optional:
            return lambda scope: look_up_optional(operand(scope), key(scope))
        return lambda scope: look_up(operand(scope), key(scope))

    def _list(self, node: ListNode) -> Evaluate:
        items = [(self.compile(item), optional) for item, optional in node.items]
        if not any(optional for _, optional in items):
            plain = [item for item, _ in items]
            return lambda scope: [item(scope) for item in plain]

        def build(scope: Scope) -> list[Any]:
            built = []
            for item, optional in items:
                value = item(scope)
                if not optional:
                    built.append(value)
                elif type(value) is not Optional:
                    raise no_such_overload()
                elif value.present:
                    built.append(value.value)
            return built

        return build

    def _map(self, node: MapNode) -> Evaluate:
        entries = [(self.compile(k), self.compile(v), optional) for k, v, optional in node.entries]

        def build(scope: Scope) -> dict[Any, Any]:
            built: dict[Any, Any] = {}
            for key, value, optional in entries:
                name, content = key(scope), value(scope)
                if optional:
                    if type(content) is not Optional:
                        raise no_such_overload()
                    if not content.present:
                        continue
                    content = content.value
                built[functions.map_key(name)] = content
            return built

        return build

    def _struct(self, node: StructNode) -> Evaluate:
        if node.name.partition(".")[0] not in self._structs:
            raise CelCompileError(f"undeclared reference to '{node.name}' (in container '')")
        entries = MapNode(tuple((Literal(name), value, optional) for name, value, optional in node.fields))
        fields = self._map(entries)
        return lambda scope: StructValue(node.name, fields(scope))

    def _call(self, node: Call) -> Evaluate:
        name, target, args = node.function, node.target, node.args
        if target is None:
            special = _SPECIAL.get(name)
            if special is not None:
                return special(self, args)
            return self._function(name, args)
        if name == "bind" and target == Ident("cel") and len(args) == 3:
            return comprehensions.bind(self, args)
        macro = comprehensions.MACROS.get((name, len(args)))
        if macro is not None:
            return macro(self, target, args)
        namespace = qualified_name(target)
        if namespace is not None and f"{namespace}.{name}" in functions.FUNCTIONS:
            return self._function(f"{namespace}.{name}", args)
        return self._method(name, target, args)

    def _function(self, name: str, args: tuple[Node, ...]) -> Evaluate:
        function = naming(name, _declared(functions.FUNCTIONS, name, args), args)
        return _applied(function, [self.compile(arg) for arg in args])

    def _method(self, name: str, target: Node, args: tuple[Node, ...]) -> Evaluate:
        if name in ("or", "orValue") and len(args) == 1:
            return self._alternative(name, target, args[0])
        args = (target, *args)
        function = naming(name, _declared(functions.METHODS, name, args), args)
        return _applied(function, [self.compile(arg) for arg in args])

    def _alternative(self, name: str, target: Node, other: Node) -> Evaluate:
        """The value of an optional; what is used instead is only evaluated if there is none."""
        optional, instead = self.compile(target), self.compile(other)
        unwrap = name == "orValue"

        def evaluate(scope: Scope) -> Any:
            value = optional(scope)
            if type(value) is not Optional:
                return value
            if value.present:
                return value.value if unwrap else value
            return instead(scope)

        return evaluate


def _declared(
    library: Mapping[str, Callable[..., Any]], name: str, args: tuple[Node, ...]
) -> Callable[..., Any]:
    """The function of that name, if it takes that many arguments."""
    function = library.get(name)
    if function is None:
        raise CelCompileError(f"undeclared reference to '{name}' (in container '')")
    try:
        inspect.signature(function).bind(None, *args)
    except TypeError:
        raise CelCompileError(f"found no matching overload for '{name}' with {len(args)} arguments") from None
    return function


def _applied(function: Callable[..., Any], args: list[Evaluate]) -> Evaluate:
    """A call of a library function, which takes the scope first so that it can charge for its work."""
    if len(args) == 1:
        only = args[0]
        return lambda scope: function(scope, only(scope))
    if len(args) == 2:
        first, second = args
        return lambda scope: function(scope, first(scope), second(scope))
    return lambda scope: function(scope, *[arg(scope) for arg in args])


# ---- operators


def _logical(short: bool) -> Callable[[Compiler, tuple[Node, ...]], Evaluate]:
    """`||` (short is True) and `&&`: an operand that decides makes errors of the others irrelevant."""

    def build(compiler: Compiler, args: tuple[Node, ...]) -> Evaluate:
        operands = [compiler.compile(arg) for arg in args]

        def evaluate(scope: Scope) -> bool:
            failure: CelError | None = None
            for operand in operands:
                try:
                    value: object = operand(scope)
                    if value is short:
                        return short
                    if value is not (not short):
                        raise no_such_overload()
                except CostLimitExceededError:
                    raise
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not short

        return evaluate

    return build


def _conditional(compiler: Compiler, args: tuple[Node, ...]) -> Evaluate:
    test, yes, no = (compiler.compile(arg) for arg in args)

    def evaluate(scope: Scope) -> Any:
        value = test(scope)
        if value is True:
            return yes(scope)
        if value is False:
            return no(scope)
        raise no_such_overload()

    return evaluate


def _not(compiler: Compiler, args: tuple[Node, ...]) -> Evaluate:
    operand = compiler.compile(args[0])

    def evaluate(scope: Scope) -> bool:
        value = operand(scope)
        if value is not True and value is not False:
            raise no_such_overload()
        return not value

    return evaluate


def _binary(apply: Callable[[Any, Any], Any]) -> Callable[[Compiler, tuple[Node, ...]], Evaluate]:
    def build(compiler: Compiler, args: tuple[Node, ...]) -> Evaluate:
        left, right = compiler.compile(args[0]), compiler.compile(args[1])
        return lambda scope: apply(left(scope), right(scope))

    return build


def _arithmetic(name: str) -> Callable[[Compiler, tuple[Node, ...]], Evaluate]:
    compute = ARITHMETIC[name]
    return lambda compiler, args: _applied(compute, [compiler.compile(arg) for arg in args])


def _has(compiler: Compiler, args: tuple[Node, ...]) -> Evaluate:
    if len(args) != 1 or not isinstance(args[0], Select):
        raise CelCompileError("invalid argument to has() macro")
    operand, field = compiler.compile(args[0].operand), args[0].field
    return lambda scope: has(operand(scope), field)


_SPECIAL: dict[str, Callable[[Compiler, tuple[Node, ...]], Evaluate]] = {
    "||": _logical(True),
    "&&": _logical(False),
    "?:": _conditional,
    "!": _not,
    **{name: _binary(apply) for name, apply in COMPARISONS.items()},
    "has": _has,
    **{name: _arithmetic(name) for name in ARITHMETIC},
}
