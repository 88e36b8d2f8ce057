"""The type check of expressions: cel-go's rules, its messages, and all problems of an expression at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mooring.api.go_regexp import PatternError, compile_pattern
from mooring.cel import functions, times
from mooring.cel.cel_errors import CelCompileError, CelError
from mooring.cel.declarations import OPERATORS, Overload, declarations
from mooring.cel.expansion import Expansion
from mooring.cel.format_check import find_problem
from mooring.cel.issues import Issue, report, syntax_issue
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
    UInt,
    parse_located,
    parts,
    qualified_name,
)
from mooring.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Substitutions,
    Type,
    assign,
    is_dynamic,
    is_variable,
    list_of,
    map_of,
    most_general,
    optional_of,
    substitute,
    unwrap_optional,
)

_DEEPEST: Final = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
_LITERALS: Final[Mapping[type, Type]] = {
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


class Environment(NamedTuple):
    """The variables that an expression can use, and the fields of types by name."""

    variables: Mapping[str, Type]
    fields: Mapping[str, Mapping[str, Type]]
    binds: bool = False
    """Whether there is the macro cel.bind."""
    structs: Collection[str] = ()
    """Types whose values an expression may write, which stand for all types below them, too. Those without
    declared fields have any."""


class Checked(NamedTuple):
    """An expression without macros whose types are right; `types` and `overloads` are by `id` of nodes. A
    call has several overloads if the types of its arguments are not certain."""

    node: Node
    types: Mapping[int, Type]
    overloads: Mapping[int, Sequence[str]]

    @property
    def result(self) -> Type:
        return self.types[id(self.node)]


def check_expression(source: str, environment: Environment) -> Checked:
    """Parse an expression and check its types; a CelCompileError has all problems, as cel-go shows them."""
    try:
        parsed, offsets = parse_located(source)
        expansion = Expansion(offsets, binds=environment.binds)
        node = expansion.expand(parsed)
        checker = _Checker(environment, expansion.offsets)
        checker.check(node)
        if not checker.issues:
            checker.validate(node)
    except CelCompileError as error:
        raise CelCompileError(report(source, [syntax_issue(error)])) from None
    except RecursionError:
        raise CelCompileError(_DEEPEST) from None
    if checker.issues:
        raise CelCompileError(report(source, checker.issues))
    return Checked(node, checker.types, checker.overloads)


def literal_type(value: Any) -> Type:
    return _LITERALS[type(value)]


class _Checker:
    def __init__(self, environment: Environment, offsets: Mapping[int, int]) -> None:
        self._variables = dict(environment.variables)
        self._fields = environment.fields
        self._structs = environment.structs
        self._offsets = offsets
        self._known: Substitutions = {}
        self._fresh = 0
        self.issues: list[Issue] = []
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, Sequence[str]] = {}

    def check(self, node: Node) -> Type:
        """Find the types below a node and its own."""
        self._type_of(node)
        self.types = {key: substitute(self._known, of, finally_=True) for key, of in self.types.items()}
        return self.types[id(node)]

    def _type_of(self, node: Node) -> Type:
        found = self.types[id(node)] = self._find(node)
        return found

    def _find(self, node: Node) -> Type:
        if isinstance(node, Literal):
            return literal_type(node.value)
        if isinstance(node, Ident):
            return self._name(node, node.name) or self._undeclared(node, node.name)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Presence):
            self._field(node, node.operand, node.field)
            return BOOL
        if isinstance(node, Index):
            types = [self._type_of(node.operand), self._type_of(node.key)]
            return self._resolve(node, "_[?_]" if node.optional else "_[_]", types, is_method=False)
        if isinstance(node, ListNode):
            return list_of(self._join(node.items) or self._variable())
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, StructNode):
            return self._struct(node)
        return self._fold(node) if isinstance(node, Fold) else self._call(node)

    # ---- helpers

    def _issue(self, node: Node, message: str) -> None:
        self.issues.append(Issue(self._offsets.get(id(node), 0), message))

    def _undeclared(self, node: Node, name: str) -> Type:
        self._issue(node, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self._issue(node, f"expected type '{expected}' but found '{found}'")

    def _variable(self) -> Type:
        self._fresh += 1
        return Type(f"_var{self._fresh - 1}")

    def _assign(self, ours: Sequence[Type], theirs: Sequence[Type]) -> bool:
        known = dict(self._known)
        if len(ours) != len(theirs) or not all(
            assign(known, a, b) for a, b in zip(ours, theirs, strict=True)
        ):
            return False
        self._known = known
        return True

    # ---- names and fields

    def _name(self, node: Node, name: str) -> Type | None:
        if name in self._variables:
            return self._variables[name]
        return Type("type", (Type(name),)) if name in functions.TYPES else None

    def _select(self, node: Select) -> Type:
        qualified = qualified_name(node)
        if qualified and not node.optional:
            declared = self._name(node, qualified)
            if declared is not None:
                return declared
        if node.optional:
            self.overloads[id(node)] = ("select_optional_field",)
        return self._field(node, node.operand, node.field, optional=node.optional)

    def _field(self, node: Node, operand: Node, field: str, *, optional: bool = False) -> Type:
        target, is_optional = unwrap_optional(substitute(self._known, self._type_of(operand)))
        if target.name == "map":
            result = target.parameters[1]
        elif is_variable(target):
            self._assign([DYN], [target])
            result = DYN
        elif is_dynamic(target) or target == ERROR:
            result = DYN
        else:
            result = self._field_of_message(node, target, field)
        return optional_of(result) if optional or is_optional else substitute(self._known, result)

    def _is_open(self, name: str) -> bool:
        """Whether a type that expressions may write has any fields."""
        return name not in self._fields and name.partition(".")[0] in self._structs

    def _struct(self, node: StructNode) -> Type:
        if node.name.partition(".")[0] not in self._structs:
            return self._undeclared(node, node.name)
        declared = self._fields.get(node.name, {})
        for entry in node.fields:
            name, value, optional = entry
            found = self._type_of(value)
            expected = DYN if self._is_open(node.name) else declared.get(name)
            if optional:
                found = unwrap_optional(found)[0]
            if expected is None or not self._assign([expected], [found]):
                shown = "" if expected is None else expected
                why = f"expected type of field '{name}' is '{shown}' but provided type is '{found}'"
                self.issues.append(Issue(self._offsets.get(id(entry), 0), why))
        return Type(node.name)

    def _field_of_message(self, node: Node, target: Type, field: str) -> Type:
        if target.name in self._fields:
            found = self._fields[target.name].get(field)
            if found is None:
                self._issue(node, f"undefined field '{field}'")
            return found or ERROR
        if self._is_open(target.name):
            return DYN
        if target.name.startswith("kubernetes."):
            self._issue(node, f"unexpected failed resolution of '{target}'")
            return ERROR
        self._issue(node, f"type '{target}' does not support field selection")
        return DYN

    # ---- lists, maps and loops

    def _join(self, items: Sequence[tuple[Node, bool]]) -> Type | None:
        """Return the type of all elements of a literal, None if there are none."""
        common: Type | None = None
        for node, optional in items:
            found = self._type_of(node)
            if optional:
                inner, is_optional = unwrap_optional(found)
                if not is_optional and not is_dynamic(inner):
                    self._mismatch(node, optional_of(inner), inner)
                found = inner
            if common is None:
                common = found
            else:
                common = most_general(common, found) if self._assign([common], [found]) else DYN
        return common

    def _map(self, node: MapNode) -> Type:
        keys, values = [], []
        for key, value, optional in node.entries:
            keys.append((key, False))
            values.append((value, optional))
        key_type, value_type = self._join(keys), self._join(values)
        return map_of(key_type or self._variable(), value_type or self._variable())

    def _fold(self, node: Fold) -> Type:
        range_type = substitute(self._known, self._type_of(node.range))
        result_type = self._type_of(node.start)
        outside = self._variables
        self._variables = {**outside, node.accumulator: result_type}
        variables = self._elements(node, range_type)
        inside = self._variables
        self._variables = {**inside, **variables}
        for part, expected in ((node.condition, BOOL), (node.step, result_type)):
            found = self._type_of(part)
            if not self._assign([expected], [found]):
                self._mismatch(part, expected, found)
        self._variables = inside
        result = substitute(self._known, self._type_of(node.result))
        self._variables = outside
        return result

    def _elements(self, node: Fold, container: Type) -> Mapping[str, Type]:
        """Return the types of the variables of a loop."""
        if container.name == "list":
            types = [INT, container.parameters[0]] if node.second else [container.parameters[0]]
        elif container.name == "map":
            types = list(container.parameters)
        elif container in (DYN, ERROR) or is_variable(container):
            self._assign([DYN], [container])
            types = [DYN, DYN]
        else:
            problem = "cannot be range of a comprehension (must be list, map, or dynamic)"
            self._issue(node.range, f"expression of type '{container}' {problem}")
            types = [ERROR, ERROR]
        names = [node.variable, node.second] if node.second else [node.variable]
        return dict(zip(names, types, strict=False))

    # ---- calls

    def _call(self, node: Call) -> Type:
        function, target = OPERATORS.get(node.function, node.function), node.target
        types = [self._type_of(arg) for arg in node.args]
        if function in ("_&&_", "_||_"):
            return self._logical(node, function, types)
        if target is None:
            return self._resolve(node, function, types, is_method=False)
        prefix = qualified_name(target)
        if prefix and self._is_declared(f"{prefix}.{function}"):
            return self._resolve(node, f"{prefix}.{function}", types, is_method=False)
        return self._resolve(node, function, [self._type_of(target), *types], is_method=True)

    def _is_declared(self, function: str) -> bool:
        """Whether there is a function; those for patches are only where patches can be written."""
        is_for_patches = function.startswith("jsonpatch.")
        return function in declarations() and ("JSONPatch" in self._structs or not is_for_patches)

    def _logical(self, node: Call, function: str, types: Sequence[Type]) -> Type:
        result = BOOL
        for argument, found in zip(node.args, types, strict=True):
            if not self._assign([found], [BOOL]):
                self._mismatch(argument, BOOL, found)
                result = ERROR
        self.overloads[id(node)] = (declarations()[function][0].name,)
        return result

    def _resolve(self, node: Node, function: str, types: Sequence[Type], *, is_method: bool) -> Type:
        """Choose the overloads that the types of the arguments allow."""
        if function not in declarations():
            return self._undeclared(node, function)
        names, result = [], None
        for overload in declarations()[function]:
            if overload.is_method is not is_method:
                continue
            arguments, returned = self._instance(overload)
            if not self._assign(types, arguments):
                continue
            names.append(overload.name)
            returned = substitute(self._known, returned)
            if result is None:
                result = returned
            elif not is_dynamic(result) and returned != result:
                result = DYN
        if result is None:
            shown = [str(substitute(self._known, of, finally_=True)) for of in types]
            signature = f"({', '.join(shown)})" if not is_method else f"{shown[0]}.({', '.join(shown[1:])})"
            self._issue(node, f"found no matching overload for '{function}' applied to '{signature}'")
            return ERROR
        self.overloads[id(node)] = names
        return result

    def _instance(self, overload: Overload) -> tuple[Sequence[Type], Type]:
        """Return the types of an overload with type variables of their own."""
        own = {variable: self._variable() for variable in overload.variables}
        return [substitute(own, of) for of in overload.arguments], substitute(own, overload.result)

    # ---- what is only looked at if all types are right

    def validate(self, node: Node) -> None:
        """Check literals: of durations, times and patterns, and that elements have one type."""
        for each, in_format in walk(node):
            if isinstance(each, Call) and each.function in _CHECKED_LITERALS:
                self._validate_argument(each)
            elif isinstance(each, Call) and each.function == "format":
                self._validate_format(each)
            elif isinstance(each, ListNode) and not in_format:
                self._validate_elements(each.items)
            elif isinstance(each, MapNode) and not in_format:
                self._validate_elements([(key, False) for key, _, _ in each.entries], go_on=True)
                self._validate_elements(
                    [(value, optional) for _, value, optional in each.entries], go_on=True
                )

    def _validate_argument(self, node: Call) -> None:
        position, convert = _CHECKED_LITERALS[node.function]
        argument = node.args[position] if len(node.args) > position else None
        if not isinstance(argument, Literal) or not isinstance(argument.value, str):
            return
        try:
            convert(argument.value)
        except (CelError, PatternError):
            self._issue(argument, f"invalid {node.function} argument")

    def _validate_format(self, node: Call) -> None:
        template, args = node.target, node.args
        if (
            isinstance(template, Literal)
            and isinstance(template.value, str)
            and isinstance(args[0], ListNode)
        ):
            items = [item for item, _ in args[0].items]
            where, problem = find_problem(template.value, items, lambda part: self.types[id(part)])
            if problem:
                self._issue(node if where is None else where, problem)

    def _validate_elements(self, items: Sequence[tuple[Node, bool]], *, go_on: bool = False) -> None:
        expected: Type | None = None
        for node, optional in items:
            found = self.types[id(node)]
            if optional:
                found = unwrap_optional(found)[0]
            if expected is None:
                expected = found
            elif found != expected:
                self._mismatch(node, expected, found)
                if not go_on:
                    return


_CHECKED_LITERALS: Final[Mapping[str, tuple[int, Callable[[str], Any]]]] = {
    "duration": (0, times.duration),
    "timestamp": (0, times.timestamp),
    "matches": (0, compile_pattern),
}


def walk(node: Node, in_format: bool = False) -> Iterator[tuple[Node, bool]]:
    """Return a node and all below it, with whether they are part of a call of `format`."""
    yield node, in_format
    in_format = in_format or (isinstance(node, Call) and node.function == "format")
    for part in parts(node):
        yield from walk(part, in_format)
