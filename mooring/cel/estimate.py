"""The most that an expression can cost: cel-go's estimate, which kube-apiserver compares with the limit when
an expression is created.

The estimate follows the expression's expansion. Sizes of values are ranges; so are costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

from mooring.cel.checker import Checked
from mooring.cel.declarations import OPERATORS, declarations
from mooring.cel.expansion import RESULT
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
    qualified_name,
)
from mooring.cel.types import SCALARS, Type, is_message, unwrap_optional

UNLIMITED: Final = 2**64 - 1
TRAVERSAL: Final = 0.1  # of a string, for each character
PATTERN: Final = 0.25  # of a regular expression, for each character
LIST_COST, MAP_COST = 10, 30

Path = tuple[str, ...]
SizeOf = Callable[[Path], int | None]
"""The largest size of what a path leads to, such as `("device", "attributes", "@values")`."""


class Range(NamedTuple):
    """From the least to the most, of a size or a cost."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(_bounded(self.least + other.least), _bounded(self.most + other.most))

    def times(self, other: Range) -> Range:
        return Range(_bounded(self.least * other.least), _bounded(self.most * other.most))

    def scaled(self, factor: float) -> Range:
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def exactly(value: int) -> Range:
    return Range(value, value)


def _bounded(value: int) -> int:
    return min(value, UNLIMITED)


def _scaled(value: int, factor: float) -> int:
    return _bounded(ceil(float(value) * factor)) if value < UNLIMITED or factor < 1 else UNLIMITED


_NOTHING: Final = exactly(0)
_ONE: Final = exactly(1)
_UNKNOWN: Final = Range(0, UNLIMITED)


class Entries(NamedTuple):
    """Sizes of the keys and values of a list or map."""

    container: str
    key: Range
    value: Range

    def union(self, other: Entries | None) -> Entries | None:
        if other is None:
            return None
        return Entries(self.container, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    """A variable of a loop, or a bound one."""

    path: Path
    size: Range | None
    entries: Entries | None


class Operand(NamedTuple):
    """What is known about the target or an argument of a call."""

    node: Node
    type: Type
    path: Path
    size: Range | None


class Estimate(NamedTuple):
    """Of a call without its arguments: its cost, and the size of its result where that is known."""

    cost: Range
    size: Range | None = None


def estimate_cost(checked: Checked, size_of: SizeOf) -> int:
    """Return the most that evaluating an expression can cost."""
    return _Estimator(checked, size_of).cost(checked.node).most


class _Estimator:
    def __init__(self, checked: Checked, size_of: SizeOf) -> None:
        self._types = checked.types
        self._overloads = checked.overloads
        self._size_of = size_of
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}
        self._locals: dict[str, _Local] = {}

    def cost(self, node: Node) -> Range:
        if isinstance(node, Literal):
            return _NOTHING
        if isinstance(node, Ident):
            local = self._locals.get(node.name)
            self._paths[id(node)] = local.path if local else (node.name,)
            return _ONE
        if isinstance(node, Presence):
            return self.cost(node.operand)
        if isinstance(node, Select):
            return self._optional_select(node) if node.optional else self._select(node)
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, Fold):
            return self._bind(node) if is_bind(node) else self._fold(node)
        if isinstance(node, Index):
            function = "_[?_]" if node.optional else "_[_]"
            return self._call(node, function, None, (node.operand, node.key))
        return self._named_call(node)

    # ---- sizes and paths

    def _path(self, node: Node) -> Path:
        if isinstance(node, Ident) and node.name in self._locals:
            return self._locals[node.name].path
        return self._paths.get(id(node), ())

    def size(self, node: Node) -> Range | None:
        if id(node) in self._sizes:
            return self._sizes[id(node)]
        own = _literal_size(node)
        if own is not None:
            return exactly(own)
        path = self._path(node)
        most = self._size_of(path) if path else None
        if most is not None:
            size = self._sizes[id(node)] = Range(0, most)
            return size
        of = self._types[id(node)]
        if _is_scalar(of):
            return _ONE
        local = self._locals.get(node.name) if isinstance(node, Ident) else None
        return local.size if local else None

    def _size_or_unknown(self, node: Node) -> Range:
        return self.size(node) or _UNKNOWN

    def _entry_sizes(self, node: Node) -> Entries | None:
        if id(node) in self._entries:
            return self._entries[id(node)]
        local = self._locals.get(node.name) if isinstance(node, Ident) else None
        return local.entries if local else None

    def _set(self, node: Node, size: Range | None, entries: Entries | None = None) -> None:
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    # ---- nodes

    def _select(self, node: Select) -> Range:
        if qualified_name(node) and self._types[id(node)].name == "type":
            self._paths[id(node)] = (qualified_name(node),)
            return _ONE  # the name of a type
        cost = self.cost(node.operand)
        of = self._types[id(node.operand)]
        if of.name == "map" or is_message(of):
            cost = cost.plus(_ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _optional_select(self, node: Select) -> Range:
        cost = self.cost(node.operand).plus(_ONE)
        self._set(node, self.size(node))
        return cost

    def _list(self, node: ListNode) -> Range:
        cost = exactly(LIST_COST)
        values = Range(UNLIMITED if node.items else 0, 0)
        for item, _ in node.items:
            cost = cost.plus(self.cost(item))
            values = values.union(self._size_or_unknown(item))
        self._entries[id(node)] = Entries("list", _ONE, values)
        return cost

    def _map(self, node: MapNode) -> Range:
        cost = exactly(MAP_COST)
        keys = values = Range(UNLIMITED if node.entries else 0, 0)
        for key, value, _ in node.entries:
            cost = cost.plus(self.cost(key)).plus(self.cost(value))
            keys = keys.union(self._size_or_unknown(key))
            values = values.union(self._size_or_unknown(value))
        self._entries[id(node)] = Entries("map", keys, values)
        return cost

    def _bind(self, node: Fold) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.start))
        local = _Local(self._path(node.start), self.size(node.start), self._entry_sizes(node.start))
        outside = self._locals
        self._locals = {**outside, node.accumulator: local}
        cost = cost.plus(self.cost(node.result))
        size, entries = self.size(node.result), self._entry_sizes(node.result)
        self._locals = outside
        self._set(node, size, entries)
        return cost

    def _fold(self, node: Fold) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.start))
        outside = self._locals
        start = _Local(self._path(node.start), self.size(node.start), self._entry_sizes(node.start))
        self._locals = {**outside, node.accumulator: start}
        inside = self._locals
        self._locals = {**inside, **self._loop_variables(node)}
        step = self.cost(node.condition).plus(self.cost(node.step))
        step_entries = self._entry_sizes(node.step)
        self._locals = inside
        cost = cost.plus(self.cost(node.result))
        self._locals = outside
        count = self._size_or_unknown(node.range)
        if isinstance(node.start, Literal):
            self._set(node, self.size(node.start))
        else:
            self._set(node, count, step_entries)
        return cost.plus(count.times(step))

    def _loop_variables(self, node: Fold) -> Mapping[str, _Local]:
        entries, path = self._entry_sizes(node.range), self._path(node.range)
        is_list = (entries.container if entries else self._types[id(node.range)].name) == "list"
        key = _Local((*path, "@indices" if is_list else "@keys"), entries.key if entries else None, None)
        value = _Local((*path, "@items" if is_list else "@values"), entries.value if entries else None, None)
        if node.second:
            # cel-go appends both steps to one slice of strings: where that has room left, which is unless its
            # length is a power of two, the second step replaces the first.
            if len(path) & (len(path) - 1):
                key = key._replace(path=value.path)
            return {node.variable: key, node.second: value}
        return {node.variable: value if is_list else key}

    # ---- calls

    def _named_call(self, node: Node) -> Range:
        assert isinstance(node, Call), node
        function, target = OPERATORS.get(node.function, node.function), node.target
        if function == "dyn":
            cost = self.cost(node.args[0]).plus(_ONE)
            self._set(node, self.size(node.args[0]), self._entry_sizes(node.args[0]))
            return cost
        prefix = qualified_name(target) if target is not None else ""
        if prefix and f"{prefix}.{function}" in declarations():
            function, target = f"{prefix}.{function}", None
        if function in ("_&&_", "_||_"):
            return self._logical(node.args)
        return self._call(node, function, target, node.args)

    def _logical(self, args: Sequence[Node]) -> Range:
        """The first operand may decide."""
        costs = [self.cost(arg) for arg in args]
        return Range(costs[0].least, _bounded(sum(cost.most for cost in costs)))

    def _call(self, node: Node, function: str, target: Node | None, args: Sequence[Node]) -> Range:
        costs, operands = [], []
        for arg in args:
            costs.append(self.cost(arg))
            operands.append(self._operand(arg))
        cost, method_target = _NOTHING, None
        if target is not None:
            cost = self.cost(target)
            method_target = self._operand(target)
        call = Range(UNLIMITED, 0)
        size: Range | None = None
        for overload in self._overloads[id(node)]:
            estimate = self._overload(node, function, overload, method_target, operands, costs)
            call = call.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload in ("index_list", "index_map"):
                entries = self._entry_sizes(args[0])
                size = entries.value if entries else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(args[0]), step)
            if size is None:
                size = self.size(node)
        self._set(node, size)
        return cost.plus(call)

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        if path and path[0] == RESULT:
            path = ()
        return Operand(node, self._types[id(node)], path, self.size(node))

    def _overload(
        self,
        node: Node,
        function: str,
        overload: str,
        target: Operand | None,
        args: Sequence[Operand],
        costs: Sequence[Range],
    ) -> Estimate:
        from mooring.cel import call_estimates  # it needs the types of this module

        total = _NOTHING
        for cost in costs:
            total = total.plus(cost)
        if overload == "conditional":
            test, yes, no = costs
            entries = self._entry_sizes(args[1].node)
            if entries is not None:
                self._set(node, None, entries.union(self._entry_sizes(args[2].node)))
            size = (args[1].size or _UNKNOWN).union(args[2].size or _UNKNOWN)
            return Estimate(test.plus(yes.union(no)), size)
        if overload in ("add_string", "add_bytes", "add_list"):
            entries = self._entry_sizes(args[0].node)
            if entries is not None:
                self._set(node, None, entries.union(self._entry_sizes(args[1].node)))
        estimate = call_estimates.estimate(function, overload, target, args, self._size_of)
        return Estimate(estimate.cost.plus(total), estimate.size)


def is_bind(node: Fold) -> bool:
    return node.range == ListNode(()) and node.condition == Literal(False) and node.accumulator != RESULT


def _literal_size(node: Node) -> int | None:
    if isinstance(node, Literal):
        return len(node.value) if isinstance(node.value, str | bytes) else 1
    if isinstance(node, ListNode):
        return len(node.items)
    return len(node.entries) if isinstance(node, MapNode) else None


def _is_scalar(of: Type) -> bool:
    inner, is_optional = unwrap_optional(of)
    return _is_scalar(inner) if is_optional else of.name in SCALARS
