"""Macros replaced by what they stand for, as cel-go's parser does: loops, presence tests, conditionals.

Types and costs of an expression are those of its expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.cel.cel_errors import CelCompileError
from mooring.cel.syntax import (
    Call,
    Fold,
    Ident,
    Index,
    ListNode,
    Literal,
    MapNode,
    Node,
    Presence,
    Select,
    StructNode,
)

RESULT: Final = "@result"
_SORTED: Final = "@__sortBy_input__"
_UNUSED: Final = "#unused"
_RESERVED: Final = (RESULT, "__result__")

Macro = Callable[["Expansion", Node, tuple[Node, ...]], Node]


class Expansion:
    """Expands the macros of one expression. New nodes are located where their macro is."""

    def __init__(self, offsets: Mapping[int, int], *, binds: bool = True) -> None:
        self.offsets = dict(offsets)
        self._binds = binds
        self._at = 0

    def expand(self, node: Node) -> Node:
        """Return the node without macros; CelCompileError where a macro has a wrong argument."""
        if isinstance(node, Select):
            return self._copy(node, Select(self.expand(node.operand), node.field, node.optional))
        if isinstance(node, Index):
            return self._copy(node, Index(self.expand(node.operand), self.expand(node.key), node.optional))
        if isinstance(node, ListNode):
            items = tuple((self.expand(item), optional) for item, optional in node.items)
            return self._copy(node, ListNode(items))
        if isinstance(node, MapNode):
            entries = tuple((self.expand(k), self.expand(v), optional) for k, v, optional in node.entries)
            return self._copy(node, MapNode(entries))
        if isinstance(node, StructNode):
            fields = []
            for entry in node.fields:
                name, value, optional = entry
                fields.append((name, self.expand(value), optional))
                self.offsets[id(fields[-1])] = self.offsets.get(id(entry), 0)
            return self._copy(node, StructNode(node.name, tuple(fields)))
        return self._call(node) if isinstance(node, Call) else node

    def new(self, node: Node) -> Node:
        self.offsets[id(node)] = self._at
        return node

    def call(self, function: str, *args: Node) -> Node:
        return self.new(Call(function, None, args))

    def result(self) -> Node:
        return self.new(Ident(RESULT))

    def name(self, node: Node, problem: str = "argument must be a simple name") -> str:
        """Return the name of a macro's variable."""
        if not isinstance(node, Ident):
            raise CelCompileError(problem, self.offsets.get(id(node)))
        if node.name in _RESERVED:
            raise CelCompileError(
                "iteration variable overwrites accumulator variable", self.offsets.get(id(node))
            )
        return node.name

    def names(self, args: tuple[Node, ...], count: int) -> tuple[str, str]:
        if count == 1:
            return self.name(args[0]), ""
        first, second = self.name(args[0]), self.name(args[1])
        if first == second:
            raise CelCompileError(f"duplicate variable name: {first}", self.offsets.get(id(args[1])))
        return first, second

    def bind(self, name: str, value: Node, body: Node) -> Node:
        unused = self.new(ListNode(()))
        never = self.new(Literal(False))
        return self.new(Fold(unused, _UNUSED, "", name, value, never, self.new(Ident(name)), body))

    def _copy(self, node: Node, copy: Node) -> Node:
        if id(node) in self.offsets:
            self.offsets[id(copy)] = self.offsets[id(node)]
        return copy

    def _call(self, node: Call) -> Node:
        args = tuple(self.expand(arg) for arg in node.args)
        if node.target is None:
            if node.function == "has" and len(args) == 1:
                return self._presence(node, args[0])
            return self._copy(node, Call(node.function, None, args))
        is_bind = self._binds and node.function == "bind" and len(args) == 3 and node.target == Ident("cel")
        macro = _bind if is_bind else MACROS.get((node.function, len(args)))
        target = self.expand(node.target)
        if macro is None:
            return self._copy(node, Call(node.function, target, args))
        self._at = self.offsets[id(node)]
        return macro(self, target, args)

    def _presence(self, node: Call, argument: Node) -> Node:
        if not isinstance(argument, Select) or argument.optional:
            raise CelCompileError("invalid argument to has() macro", self.offsets.get(id(argument)))
        return self._copy(node, Presence(argument.operand, argument.field))


def _bind(expansion: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
    name = expansion.name(args[0], "cel.bind() variable names must be simple identifiers")
    return expansion.bind(name, args[1], args[2])


def _quantifier(variables: int, decisive: bool) -> Macro:
    def macro(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
        goes_on = new.call("!", new.result()) if decisive else new.result()
        return new.new(
            Fold(
                target,
                *new.names(args, variables),
                RESULT,
                new.new(Literal(not decisive)),
                new.call("@not_strictly_false", goes_on),
                new.call("||" if decisive else "&&", new.result(), args[variables]),
                new.result(),
            )
        )

    return macro


def _exists_one(variables: int) -> Macro:
    def macro(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
        counted = new.call("+", new.result(), new.new(Literal(1)))
        return new.new(
            Fold(
                target,
                *new.names(args, variables),
                RESULT,
                new.new(Literal(0)),
                new.new(Literal(True)),
                new.call("?:", args[variables], counted, new.result()),
                new.call("==", new.result(), new.new(Literal(1))),
            )
        )

    return macro


def _collect(
    new: Expansion, target: Node, names: tuple[str, str], start: Node, test: Node | None, step: Node
) -> Node:
    """A loop that adds to its result where a test holds."""
    if test is not None:
        step = new.call("?:", test, step, new.result())
    return new.new(Fold(target, *names, RESULT, start, new.new(Literal(True)), step, new.result()))


def _filter(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
    names = (new.name(args[0], "argument is not an identifier"), "")
    step = new.call("+", new.result(), new.new(ListNode(((args[0], False),))))
    return _collect(new, target, names, new.new(ListNode(())), args[1], step)


def _map(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
    return _to_list(new, target, (new.name(args[0], "argument is not an identifier"), ""), args[1:])


def _transform_list(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
    return _to_list(new, target, new.names(args, 2), args[2:])


def _to_list(new: Expansion, target: Node, names: tuple[str, str], body: tuple[Node, ...]) -> Node:
    step = new.call("+", new.result(), new.new(ListNode(((body[-1], False),))))
    return _collect(new, target, names, new.new(ListNode(())), body[0] if len(body) == 2 else None, step)


def _to_map(entries: bool) -> Macro:
    def macro(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
        names, body = new.names(args, 2), args[2:]
        key = () if entries else (new.new(Ident(names[0])),)
        step = new.call("cel.@mapInsert", new.result(), *key, body[-1])
        return _collect(new, target, names, new.new(MapNode(())), body[0] if len(body) == 2 else None, step)

    return macro


def _sort_by(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
    if isinstance(target, Literal | MapNode | Presence):
        problem = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CelCompileError(problem, new.offsets.get(id(target)))
    keys = _map(new, new.new(Ident(_SORTED)), args)
    ordered = new.new(Call("@sortByAssociatedKeys", new.new(Ident(_SORTED)), (keys,)))
    return new.bind(_SORTED, target, ordered)


def _opt_map(flat: bool) -> Macro:
    def macro(new: Expansion, target: Node, args: tuple[Node, ...]) -> Node:
        function = "optFlatMap" if flat else "optMap"
        name = new.name(args[0], f"{function}() variable name must be a simple identifier")
        value = new.bind(name, new.new(Call("value", target, ())), args[1])
        present = value if flat else new.call("optional.of", value)
        test = new.new(Call("hasValue", target, ()))
        return new.call("?:", test, present, new.call("optional.none"))

    return macro


MACROS: Final[dict[tuple[str, int], Macro]] = {
    ("all", 2): _quantifier(1, False),
    ("all", 3): _quantifier(2, False),
    ("exists", 2): _quantifier(1, True),
    ("exists", 3): _quantifier(2, True),
    ("exists_one", 2): _exists_one(1),
    ("exists_one", 3): _exists_one(2),
    ("existsOne", 3): _exists_one(2),
    ("filter", 2): _filter,
    ("map", 2): _map,
    ("map", 3): _map,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _to_map(False),
    ("transformMap", 4): _to_map(False),
    ("transformMapEntry", 3): _to_map(True),
    ("transformMapEntry", 4): _to_map(True),
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map(False),
    ("optFlatMap", 2): _opt_map(True),
}
