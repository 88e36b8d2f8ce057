"""The rules of a schema (x-kubernetes-validations), compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from mooring.cel import CelCompileError, Program, compile_expression
from mooring.cel.checker import Checked, Environment, check_expression, walk
from mooring.cel.counting import CountingProgram
from mooring.cel.estimate import estimate_cost
from mooring.cel.syntax import Ident
from mooring.cel.types import BOOL, STRING, Type, optional_of
from mooring.sandbox.apiserver.custom.rule_types import Declaration, declare, size_at, types_in
from mooring.sandbox.apiserver.kinds.schema_leaves import is_leaf
from mooring.sandbox.apiserver.objects import Tree

_SELF: Final = "selfType"
_OLD: Final = "oldSelf"
LONG_RULES: Final = 1_000
"""Characters of expressions that take tens of milliseconds to compile."""


class Expression(NamedTuple):
    """A compiled expression and the most that it can cost, or what is wrong with it."""

    program: CountingProgram | None = None
    quick: Program | None = None
    """Much quicker, and does not know what it cost."""
    cost: int = 0
    error: str = ""
    uses_old: bool = False


class Rule(NamedTuple):
    """One rule; its text and options are in `tree`."""

    tree: Tree
    expression: Expression
    message: Expression
    field: str = ""
    """The field that failures are reported for, below the value of the rule; empty for the value itself."""

    @property
    def text(self) -> str:
        """What errors call the rule."""
        return str(self.tree.get("message") or self.tree["rule"]).strip()


def compile_rules(schema: Mapping[str, Any], declaration: Declaration) -> list[Rule]:
    """Compile the rules of one node of a schema."""
    fields = types_in(declaration)
    own = declaration.type
    return [
        _compile_rule(schema, tree, declaration, {"self": own, _OLD: _old_type(tree, own)}, fields)
        for tree in schema.get("x-kubernetes-validations") or ()
    ]


def declare_self(schema: Mapping[str, Any], *, root: bool) -> Declaration | None:
    """Return the type of `self` for the rules of a node; None if the node has no type."""
    return declare(schema, _SELF, resource=root or bool(schema.get("x-kubernetes-embedded-resource")))


def _old_type(tree: Tree, own: Type) -> Type:
    return optional_of(own) if tree.get("optionalOldSelf") else own


def _compile_rule(
    schema: Mapping[str, Any],
    tree: Tree,
    declaration: Declaration,
    variables: Mapping[str, Type],
    fields: Mapping[str, Mapping[str, Type]],
) -> Rule:
    environment = Environment(variables, fields)
    text, message = tree.get("rule") or "", tree.get("messageExpression") or ""
    if not text.strip():
        return Rule(tree, Expression(), Expression())
    expression = _compile(text, environment, declaration, BOOL)
    if expression.error:
        return Rule(tree, expression, Expression())
    compiled = _compile(message, environment, declaration, STRING) if message else Expression()
    if compiled.error:
        compiled = Expression(error=f"messageExpression {compiled.error.removeprefix('cel expression ')}")
    path = tree.get("fieldPath") or ""
    return Rule(tree, expression, compiled, field_path(path, schema) or "" if path else "")


def _compile(text: str, environment: Environment, declaration: Declaration, result: Type) -> Expression:
    try:
        checked = check_expression(text, environment)
    except CelCompileError as error:
        return Expression(error=f"compilation failed: {error}")
    if checked.result != result:
        return Expression(error=f"cel expression must evaluate to a {result}")
    cost = estimate_cost(checked, lambda path: size_at(declaration, path))
    quick = compile_expression(text, environment.variables)
    return Expression(CountingProgram(checked), quick, cost, uses_old=_uses_old(checked))


def _uses_old(checked: Checked) -> bool:
    return any(isinstance(node, Ident) and node.name == _OLD for node, _ in walk(checked.node))


# ---- the tree of rules ----------------------------------------------------------------------------


class RuleNode:
    """A node of a schema that has rules at it or below it. They are compiled when they are first used."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool = False) -> None:
        self.schema = schema
        self.is_resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
        self.items = _node(schema.get("items"))
        self.additional = _node(schema.get("additionalProperties"))
        nodes = {name: _node(inner) for name, inner in (schema.get("properties") or {}).items()}
        self.properties = {name: node for name, node in nodes.items() if node is not None}

    @cached_property
    def rules(self) -> list[Rule]:
        declaration = declare_self(self.schema, root=self.is_resource)
        return [] if declaration is None else compile_rules(self.schema, declaration)

    @cached_property
    def uses_old(self) -> bool:
        return any(rule.expression.uses_old for rule in self.rules)


def rule_tree(schema: Mapping[str, Any]) -> RuleNode | None:
    """Return the rules of a kind; None if it has none."""
    return RuleNode(schema, root=True) if has_rules(schema) else None


def _node(schema: Any) -> RuleNode | None:
    if not isinstance(schema, dict) or is_leaf(schema):
        return None
    node = RuleNode(schema)
    own = schema.get("x-kubernetes-validations")
    return node if own or node.items or node.additional or node.properties else None


def has_rules(schema: Mapping[str, Any]) -> bool:
    """Whether a schema has rules at its root or below."""
    return rules_length(schema) > 0


def rules_length(schema: Mapping[str, Any]) -> int:
    """Return the number of characters in the rules of a schema, by which compiling them takes long."""
    length = 0
    left: list[Any] = [schema]
    while left:
        one = left.pop()
        if not isinstance(one, dict) or is_leaf(one):
            continue
        for rule in one.get("x-kubernetes-validations") or ():
            length += 1 + len(rule.get("rule") or "") + len(rule.get("messageExpression") or "")
        left += (one.get("properties") or {}).values()
        left += (one.get("additionalProperties"), one.get("items"))
    return length


# ---- paths of fields ------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


def field_path(path: str, schema: Mapping[str, Any]) -> str | None:
    """Return a path such as `.spec.labels['app']` as errors write it; None if it leads to no field."""
    shown = ""
    tokens = _TOKEN.findall(path)
    while tokens:
        token = tokens.pop(0)
        if token == "[" and len(tokens) >= 2 and tokens[1] == "]":
            name = _unquote(tokens.pop(0))
            tokens.pop(0)
        elif token == "." and tokens:
            name = tokens.pop(0)
        else:
            return None
        properties, values = schema.get("properties"), schema.get("additionalProperties")
        if name is None:
            return None
        if properties is not None:
            if name not in properties:
                return None
            shown += f".{name}" if shown else name
            schema = properties[name]
        elif isinstance(values, dict):
            shown += f"[{name}]"
            schema = values
        else:
            return None
    return shown


def _unquote(token: str) -> str | None:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        return None
    try:
        return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], token[1:-1])
    except KeyError:
        return None
