"""Evaluation that counts its cost as cel-go does, for expressions that may exceed a limit.

It walks the expansion of an expression, node by node, and is several times slower than a `Program`. Failures
are values here, as they are in cel-go: a call is charged even if an argument failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final, NamedTuple

from mooring.cel import functions
from mooring.cel.call_costs import call_cost
from mooring.cel.cel_errors import CelError, CostLimitExceededError, no_such_overload
from mooring.cel.checker import Checked
from mooring.cel.declarations import OPERATORS, declarations
from mooring.cel.estimate import LIST_COST, MAP_COST, is_bind
from mooring.cel.expansion import RESULT
from mooring.cel.mismatches import naming
from mooring.cel.operators import ARITHMETIC, COMPARISONS
from mooring.cel.scope import Scope
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
    parts,
    qualified_name,
)
from mooring.cel.values import (
    NONE,
    Optional,
    compare,
    elements,
    equal_or_false,
    has,
    look_up,
    look_up_optional,
    pairs,
)

Frame = dict[str, Any]
"""The variables in sight."""

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PRIMITIVES: Final = (bool, int, float, str)  # a set of these answers `in` at no cost
_MISSING: Final = object()


class CountingProgram:
    """A checked expression, evaluated with the exact cost."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._constants: dict[int, Any] = {}
        self._fold_constants(checked.node)

    def evaluate(self, variables: Mapping[str, Any], cost_limit: int) -> tuple[Any, int]:
        """Return the value and what it cost; CelError where there is no value, or it costs too much."""
        value, cost = self.run(variables, cost_limit)
        if isinstance(value, CelError):
            raise value
        return value, cost

    def run(self, variables: Mapping[str, Any], cost_limit: int) -> tuple[Any, int]:
        """Return the value, or the CelError that is instead of it, and what it cost."""
        run = _Run(self._checked, self._constants, cost_limit)
        try:
            value = run.evaluate(self._checked.node, dict(variables))
        except RecursionError:
            value = CelError("expression is nested too deeply")
        except CelError as error:
            value = error
        return value, run.cost

    def _fold_constants(self, node: Node) -> None:
        """Find the parts that are computed in advance, which cost nothing."""
        for part in parts(node):
            self._fold_constants(part)
        value = self._constant(node)
        if value is not _MISSING:
            self._constants[id(node)] = value

    def _constant(self, node: Node) -> Any:
        known = self._constants
        if isinstance(node, Literal):
            return node.value
        name = qualified_name(node)
        if name in functions.TYPES and self._checked.types[id(node)].name == "type":
            return functions.TYPES[name]
        if isinstance(node, ListNode) and all(id(item) in known for item, _ in node.items):
            return [known[id(item)] for item, _ in node.items]
        if isinstance(node, MapNode) and all(id(k) in known and id(v) in known for k, v, _ in node.entries):
            return {known[id(k)]: known[id(v)] for k, v, _ in node.entries}
        if isinstance(node, Call) and node.target is None:
            if node.function in _CONVERSIONS and len(node.args) == 1 and id(node.args[0]) in known:
                return functions.FUNCTIONS[node.function](Scope({}, 1000), known[id(node.args[0])])
            if _is_in_list(self._checked, node) and known.get(id(node.args[1])) == []:
                return False
        return _MISSING


def _is_in_list(checked: Checked, node: Call) -> bool:
    return node.function == "in" and list(checked.overloads[id(node)]) == ["in_list"]


class _Pending:
    """A variable that is computed when it is first used."""

    __slots__ = ("frame", "node", "value")

    def __init__(self, node: Node, frame: Frame) -> None:
        self.node = node
        self.frame = frame
        self.value: Any = _MISSING


class _Step(NamedTuple):
    """One selection of an attribute: of a field or key; `key` is computed unless it is constant."""

    node: Node
    key: Any
    is_computed: bool
    optional: bool
    is_test: bool


class _Run:
    """One evaluation."""

    def __init__(self, checked: Checked, constants: Mapping[int, Any], limit: int) -> None:
        self._overloads = checked.overloads
        self._checked = checked
        self._constants = constants
        self._limit = limit
        self._scope = Scope({}, 100 * limit)  # against functions whose results are huge
        self.cost = 0

    def evaluate(self, node: Node, frame: Frame) -> Any:
        """Return the value of a node, or the CelError that it failed with."""
        value = self._constants.get(id(node), _MISSING)
        if value is not _MISSING:
            return value
        if isinstance(node, Ident | Select | Index | Presence) or _is_conditional(node):
            return self._attribute(node, frame)
        if isinstance(node, ListNode):
            return self._list(node, frame)
        if isinstance(node, MapNode):
            return self._map(node, frame)
        if isinstance(node, Fold):
            return self._fold(node, frame)
        assert isinstance(node, Call), node
        return self._call(node, frame)

    def _charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self._limit:
            raise CostLimitExceededError

    # ---- attributes: a variable or value with the selections on it

    def _attribute(self, node: Node, frame: Frame) -> Any:
        base, steps = self._chain(node)
        value = self._resolve(base, steps, frame)
        is_conditional = _is_conditional(base)
        if isinstance(node, Presence):
            self.cost -= int(is_conditional)
        elif not is_conditional:
            self._charge(1)
        return value

    def _chain(self, node: Node) -> tuple[Node, Sequence[_Step]]:
        """Return what selections start from, and the selections."""
        steps: list[_Step] = []
        while id(node) not in self._constants:
            if isinstance(node, Presence):
                steps.append(_Step(node, node.field, False, False, True))
                node = node.operand
            elif isinstance(node, Select):
                steps.append(_Step(node, node.field, False, node.optional, False))
                node = node.operand
            elif isinstance(node, Index):
                key = self._constants.get(id(node.key), _MISSING)
                is_computed = key is _MISSING
                steps.append(_Step(node, node.key if is_computed else key, is_computed, node.optional, False))
                node = node.operand
            else:
                break
        return node, steps[::-1]

    def _resolve(self, base: Node, steps: Sequence[_Step], frame: Frame) -> Any:
        value = self._constants.get(id(base), _MISSING)
        if value is not _MISSING:
            pass
        elif isinstance(base, Ident):
            value = self._variable(base.name, frame)
        elif isinstance(base, Call) and _is_conditional(base):
            return self._branch(base, steps, frame)
        else:
            value = self.evaluate(base, frame)
        return value if isinstance(value, CelError) else self._select(value, steps, frame)

    def _branch(self, node: Call, steps: Sequence[_Step], frame: Frame) -> Any:
        test, yes, no = node.args
        value = self.evaluate(test, frame)
        if value is not True and value is not False:
            return value if isinstance(value, CelError) else no_such_overload()
        base, own = self._chain(yes if value else no)
        return self._resolve(base, [*own, *steps], frame)

    def _variable(self, name: str, frame: Frame) -> Any:
        value = frame[name]
        if isinstance(value, _Pending):
            if value.value is _MISSING:
                value.value = self.evaluate(value.node, value.frame)
            return value.value
        return value

    def _select(self, value: Any, steps: Sequence[_Step], frame: Frame) -> Any:
        is_optional = isinstance(value, Optional) and bool(steps)
        if is_optional:
            if not value.present:
                return value
            value = value.value
        for step in steps:
            is_optional = is_optional or step.optional
            key = self._key(step, frame)
            value = self._step(value, key, step, is_optional)
            if isinstance(value, CelError) or value is NONE:
                return value
        return Optional(True, value) if is_optional else value

    def _key(self, step: _Step, frame: Frame) -> Any:
        if not step.is_computed:
            return step.key
        base, steps = self._chain(step.key)
        return self._resolve(base, steps, frame)

    def _step(self, value: Any, key: Any, step: _Step, is_optional: bool) -> Any:
        try:
            if isinstance(key, CelError):
                raise key
            if step.is_test:
                result: Any = has(value, key)
            elif is_optional:
                result = look_up_optional(value, key)
                if not result.present:
                    return NONE
                result = result.value
            else:
                result = look_up(value, key)
        except CelError as error:
            result = error
        if not is_optional or not isinstance(result, CelError):
            self._charge(1)
        return result

    # ---- literals

    def _list(self, node: ListNode, frame: Frame) -> Any:
        built: list[Any] = []
        failure: CelError | None = None
        for item, optional in node.items:
            value = self.evaluate(item, frame)
            value = _entry(value) if optional else value
            if value is _MISSING:
                continue
            if isinstance(value, CelError):
                failure = value
                break
            built.append(value)
        self._charge(LIST_COST)
        return failure or built

    def _map(self, node: MapNode, frame: Frame) -> Any:
        built: dict[Any, Any] = {}
        failure: CelError | None = None
        for key_node, value_node, optional in node.entries:
            key = self.evaluate(key_node, frame)
            value = key if isinstance(key, CelError) else self.evaluate(value_node, frame)
            value = _entry(value) if optional else value
            if value is _MISSING:
                continue
            if isinstance(value, CelError):
                failure = value
                break
            built[functions.map_key(key)] = value
        self._charge(MAP_COST)
        return failure or built

    # ---- loops

    def _fold(self, node: Fold, frame: Frame) -> Any:
        start = _Pending(node.start, frame)
        if is_bind(node):
            return self.evaluate(node.result, {**frame, node.accumulator: start})
        collection = self.evaluate(node.range, frame)
        if isinstance(collection, CelError):
            return collection
        inside = {**frame, node.accumulator: start}
        try:
            entries = pairs(collection) if node.second else ((item, None) for item in elements(collection))
        except CelError as error:
            return error
        for first, second in entries:
            inside[node.variable] = first
            if node.second:
                inside[node.second] = second
            if self.evaluate(node.condition, inside) is False:
                break
            inside[node.accumulator] = self.evaluate(node.step, inside)
        return self.evaluate(node.result, {**frame, node.accumulator: inside[node.accumulator]})

    # ---- calls

    def _call(self, node: Call, frame: Frame) -> Any:
        if node.function in ("&&", "||"):
            return self._logical(node, frame)
        if node.function in ("or", "orValue") and node.target is not None:
            return self._alternative(node, node.target, frame)
        if _is_in_list(self._checked, node):
            items = self._constants.get(id(node.args[1]), _MISSING)
            if items is not _MISSING and all(isinstance(item, _PRIMITIVES) for item in items):
                value = self.evaluate(node.args[0], frame)
                return value if isinstance(value, CelError) else _is_member(value, items)
        name, nodes, apply = _function(node)
        values: list[Any] = []
        for arg in nodes:
            values.append(self.evaluate(arg, frame))
            if len(nodes) > 2 and isinstance(values[-1], CelError):
                return values[-1]
        overloads = self._overloads[id(node)]
        result = self._apply(node, apply, values)
        self._charge(call_cost(name, overloads[0] if len(overloads) == 1 else "", values, result))
        return result

    def _apply(self, node: Call, apply: Callable[..., Any], values: Sequence[Any]) -> Any:
        if node.function == "@not_strictly_false":
            return True if isinstance(values[0], CelError) else values[0]
        for value in values:
            if isinstance(value, CelError):
                return value
        if node.function == "+" and node.args[0] == Ident(RESULT) and isinstance(values[0], list):
            return _extended(values[0], values[1])
        try:
            return apply(self._scope, *values)
        except CostLimitExceededError:
            raise
        except CelError as error:
            return error

    def _alternative(self, node: Call, target: Node, frame: Frame) -> Any:
        """The value of an optional, or what is used instead; neither has a cost of its own."""
        value = self.evaluate(target, frame)
        if not isinstance(value, Optional):
            return value
        if value.present:
            return value.value if node.function == "orValue" else value
        return self.evaluate(node.args[0], frame)

    def _logical(self, node: Call, frame: Frame) -> Any:
        decisive = node.function == "||"
        failure: CelError | None = None
        for arg in node.args:
            value = self.evaluate(arg, frame)
            if value is decisive:
                return decisive
            if value is not (not decisive):
                failure = failure or (value if isinstance(value, CelError) else no_such_overload())
        return failure or (not decisive)


def _entry(value: Any) -> Any:
    """The value of an entry with `?`, _MISSING where there is none, or the failure."""
    if isinstance(value, CelError):
        return value
    if not isinstance(value, Optional):
        return no_such_overload()
    return value.value if value.present else _MISSING


def _is_conditional(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "?:"


def _is_member(value: Any, items: Sequence[Any]) -> bool:
    return any(equal_or_false(value, item) for item in items)


def _extended(items: list[Any], more: Any) -> Any:
    """Add to the result of a loop, which is a list of its own after the first step."""
    if not isinstance(more, list):
        return no_such_overload()
    if not items:
        return list(more)
    items.extend(more)
    return items


def _function(node: Call) -> tuple[str, tuple[Node, ...], Callable[..., Any]]:
    """Return the name of a call's function, its arguments with the target first, and what computes it."""
    name = OPERATORS.get(node.function, node.function)
    if node.function in COMPARISONS:
        compute = COMPARISONS[node.function]
        return name, node.args, lambda scope, a, b: compute(a, b)
    if node.function in ARITHMETIC:
        return name, node.args, ARITHMETIC[node.function]
    if node.function in _INTERNAL:
        args = node.args if node.target is None else (node.target, *node.args)
        return name, args, _INTERNAL[node.function]
    if node.target is None:
        return name, node.args, naming(name, functions.FUNCTIONS[name], node.args)
    prefix = qualified_name(node.target)
    if prefix and f"{prefix}.{name}" in declarations():
        name = f"{prefix}.{name}"
        return name, node.args, naming(name, functions.FUNCTIONS[name], node.args)
    args = (node.target, *node.args)
    return name, args, naming(name, functions.METHODS[name], args)


def _not(scope: Scope, value: Any) -> Any:
    if value is not True and value is not False:
        raise no_such_overload()
    return not value


def _insert(scope: Scope, entries: Any, *new: Any) -> Any:
    """Add an entry, or all of another map."""
    added = dict([new]) if len(new) == 2 else new[0]
    if not isinstance(added, dict):
        raise no_such_overload()
    for key in added:
        if functions.map_key(key) in entries:
            raise CelError(f"insert failed: key {key} already exists")
    return {**entries, **added}


def _sort_by_keys(scope: Scope, items: Any, keys: Any) -> Any:
    order = sorted(range(len(items)), key=cmp_to_key(lambda a, b: compare(keys[a], keys[b])))
    return [items[at] for at in order]


_INTERNAL: Final[Mapping[str, Callable[..., Any]]] = {
    "!": _not,
    "@not_strictly_false": lambda scope, value: value,
    "cel.@mapInsert": _insert,
    "@sortByAssociatedKeys": _sort_by_keys,
}
