"""The macros that bind variables: all, exists, map, filter and the like, and cel.bind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from mooring.cel.cel_errors import CelCompileError, CelError, CostLimitExceededError, no_such_overload
from mooring.cel.functions import map_key
from mooring.cel.scope import Evaluate, Lazy, Scope
from mooring.cel.syntax import Ident, Node
from mooring.cel.values import NONE, Optional, compare, elements, pairs, type_name

if TYPE_CHECKING:
    from mooring.cel.program import Compiler

Macro = Callable[["Compiler", Node, tuple[Node, ...]], Evaluate]
Steps = Iterator[Scope]


def _variable(node: Node) -> str:
    if not isinstance(node, Ident):
        raise CelCompileError("argument must be a simple name")
    return node.name


class _Loop:
    """A range with one or two loop variables, and the expressions in its body."""

    def __init__(
        self, compiler: Compiler, target: Node, variables: tuple[Node, ...], body: tuple[Node, ...]
    ) -> None:
        self._range = compiler.compile(target)
        self._names = [_variable(node) for node in variables]
        if len(set(self._names)) < len(self._names):
            raise CelCompileError(f"duplicate variable name: {self._names[0]}")
        inside = compiler.inside(*self._names)
        self.body = [inside.compile(node) for node in body]
        self._cost = inside.size

    def steps(self, scope: Scope) -> Steps:
        collection = self._range(scope)
        if len(self._names) == 1:
            name = self._names[0]
            for item in elements(collection):
                scope.spend(self._cost)
                yield scope.with_variables({name: item})
        else:
            first, second = self._names
            for key, value in pairs(collection):
                scope.spend(self._cost)
                yield scope.with_variables({first: key, second: value})


def _quantifier(variables: int, decisive: bool) -> Macro:
    """`exists` (decisive is True) and `all`: one decisive step makes errors of others irrelevant."""

    def macro(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
        loop = _Loop(compiler, target, args[:variables], args[variables:])
        test = loop.body[0]

        def evaluate(scope: Scope) -> bool:
            failure: CelError | None = None
            for step in loop.steps(scope):
                try:
                    value: object = test(step)
                    if value is decisive:
                        return decisive
                    if value is not (not decisive):
                        raise no_such_overload()
                except CostLimitExceededError:
                    raise
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not decisive

        return evaluate

    return macro


def _exists_one(variables: int) -> Macro:
    def macro(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
        loop = _Loop(compiler, target, args[:variables], args[variables:])
        return lambda scope: sum(_holds(loop.body[0], step) for step in loop.steps(scope)) == 1

    return macro


def _holds(test: Evaluate, scope: Scope) -> bool:
    value = test(scope)
    if value is not True and value is not False:
        raise no_such_overload()
    return bool(value)


def _filter(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
    loop = _Loop(compiler, target, args[:1], args[1:])
    name = _variable(args[0])
    return lambda scope: [s.variables[name] for s in loop.steps(scope) if _holds(loop.body[0], s)]


def _to_list(variables: int) -> Macro:
    """`map` and `transformList`: an optional filter, then what to make of the items."""

    def macro(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
        loop = _Loop(compiler, target, args[:variables], args[variables:])
        *tests, transform = loop.body
        return lambda scope: [
            transform(step) for step in loop.steps(scope) if all(_holds(test, step) for test in tests)
        ]

    return macro


def _to_map(entries: bool) -> Macro:
    """`transformMap`, which keeps the keys, and `transformMapEntry`, whose body gives maps to be merged."""

    def macro(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
        loop = _Loop(compiler, target, args[:2], args[2:])
        key_name = _variable(args[0])
        *tests, transform = loop.body

        def evaluate(scope: Scope) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for step in loop.steps(scope):
                if not all(_holds(test, step) for test in tests):
                    continue
                value = transform(step)
                new = value if entries else {step.variables[key_name]: value}
                if not isinstance(new, dict):
                    raise no_such_overload()
                for key, content in new.items():
                    if map_key(key) in result:
                        raise CelError(f"insert failed: key {key} already exists")
                    result[key] = content
            return result

        return evaluate

    return macro


def _sort_by(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
    loop = _Loop(compiler, target, args[:1], args[1:])
    name = _variable(args[0])

    def evaluate(scope: Scope) -> list[Any]:
        keyed: list[tuple[Any, Any]] = [
            (loop.body[0](step), step.variables[name]) for step in loop.steps(scope)
        ]
        keyed.sort(key=cmp_to_key(_by_first))
        return [item for _, item in keyed]

    return evaluate


def _by_first(a: tuple[Any, Any], b: tuple[Any, Any]) -> int:
    return compare(a[0], b[0])


def _opt_map(flat: bool) -> Macro:
    def macro(compiler: Compiler, target: Node, args: tuple[Node, ...]) -> Evaluate:
        name = _variable(args[0])
        operand, body = compiler.compile(target), compiler.inside(name).compile(args[1])

        def evaluate(scope: Scope) -> Optional:
            value = operand(scope)
            if type(value) is not Optional:
                raise no_such_overload(f"hasValue({type_name(value)})")
            if not value.present:
                return NONE
            result = body(scope.with_variables({name: value.value}))
            return result if flat else Optional(True, result)

        return evaluate

    return macro


def bind(compiler: Compiler, args: tuple[Node, ...]) -> Evaluate:
    """`cel.bind(name, value, body)`: the value is computed when the body first needs it, at most once."""
    name = _variable(args[0])
    value, inside = compiler.compile(args[1]), compiler.inside(name, lazy=True)
    body = inside.compile(args[2])
    compiler.size += inside.size
    return lambda scope: body(scope.with_variables({name: Lazy(scope, value)}))


MACROS: dict[tuple[str, int], Macro] = {
    ("all", 2): _quantifier(1, False),
    ("all", 3): _quantifier(2, False),
    ("exists", 2): _quantifier(1, True),
    ("exists", 3): _quantifier(2, True),
    ("exists_one", 2): _exists_one(1),
    ("exists_one", 3): _exists_one(2),
    ("existsOne", 3): _exists_one(2),
    ("filter", 2): _filter,
    ("map", 2): _to_list(1),
    ("map", 3): _to_list(1),
    ("transformList", 3): _to_list(2),
    ("transformList", 4): _to_list(2),
    ("transformMap", 3): _to_map(False),
    ("transformMap", 4): _to_map(False),
    ("transformMapEntry", 3): _to_map(True),
    ("transformMapEntry", 4): _to_map(True),
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map(False),
    ("optFlatMap", 2): _opt_map(True),
}
