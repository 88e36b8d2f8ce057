"""The part of Go's template language that scheduler_perf's files can use.

Values are `.Index` and `.Count`; actions are pipelines of values, parentheses and the functions below,
`if`, `else`, `with`, variables and comments, with trim markers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

_ACTION = re.compile(r"\{\{(-(?=\s))?(.*?)((?<=\s)-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:\\.|[^"\\])*"|`[^`]*`)|(?P<number>[+-]?\d+\.?\d*(?:[eE][+-]?\d+)?)
    |(?P<field>\.[A-Za-z_]\w*|\.)|(?P<variable>\$\w*(?:\.\w+)?)|(?P<word>[A-Za-z_]\w*)|(?P<mark>:=|[|()=]))""",
    re.VERBOSE,
)
_KEYWORDS = ("if", "else", "end", "with")


class TemplateError(ValueError):
    """A template that cannot be parsed or executed."""


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TemplateError(f"cannot cast {value} to float64")
    try:
        return float(value)
    except ValueError:
        raise TemplateError(f"cannot cast {value} to float64") from None


def _divide(first: Any, second: Any) -> float:
    if not _number(second):
        raise TemplateError("division by zero")
    return _number(first) / _number(second)


def _mod(first: Any, second: Any) -> int:
    """The remainder with the sign of the dividend, as in Go."""
    a, b = int(_number(first)), int(_number(second))
    if not b:
        raise TemplateError("integer divide by zero")
    return a - b * int(a / b)


def _add(*numbers: Any) -> float:
    return sum(map(_number, numbers), 0.0)


def _multiply(*numbers: Any) -> float:
    return reduce(lambda product, number: product * _number(number), numbers, 1.0)


def _subtract(first: Any, second: Any) -> float:
    return _number(first) - _number(second)


def _printf(form: str, *values: Any) -> str:
    try:
        return re.sub(r"%([-+0-9.]*)v", r"%\1s", form) % tuple(map(_plain, values))
    except (TypeError, ValueError) as error:
        raise TemplateError(f"printf: {error}") from None


def _plain(value: Any) -> Any:
    return _show(value) if isinstance(value, bool) else value


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "AddFloat": _add,
    "AddInt": lambda *numbers: int(_add(*numbers)),
    "DivideFloat": _divide,
    "DivideInt": lambda a, b: int(_divide(a, b)),
    "Mod": _mod,
    "MultiplyFloat": _multiply,
    "MultiplyInt": lambda *numbers: int(_multiply(*numbers)),
    "SubtractFloat": _subtract,
    "SubtractInt": lambda a, b: int(_subtract(a, b)),
    "eq": lambda first, *others: any(first == other for other in others),
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "not": lambda value: not value,
    "len": len,
    "print": lambda *values: "".join(map(_show, values)),
    "printf": _printf,
    "println": lambda *values: " ".join(map(_show, values)) + "\n",
}


def _show(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) and abs(value) < 1e21 else repr(value)
    return str(value)


class _Scope:
    """Values by name, and what `.` is."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.variables: dict[str, Any] = {"$": data}
        self.dot: Any = data


Node = Callable[[_Scope], Any]


class _Action(NamedTuple):
    keyword: str
    tokens: list[tuple[str, str]]


class GoTemplate:
    """A parsed template. Raises TemplateError."""

    def __init__(self, text: str) -> None:
        pieces = _pieces(text)
        self.varies = any(isinstance(piece, _Action) for piece in pieces)
        self._nodes, rest, _ = _block(pieces, 0)
        if rest != len(pieces):
            raise TemplateError("unexpected {{end}}")

    def render(self, index: int, count: int) -> str:
        scope = _Scope({"Index": index, "Count": count})
        return "".join(_show(node(scope)) for node in self._nodes)


def _pieces(text: str) -> list[str | _Action]:
    """Text and actions in turn, with the white space that trim markers remove gone."""
    pieces: list[str | _Action] = []
    position, trim = 0, False
    for match in _ACTION.finditer(text):
        plain = text[position : match.start()]
        plain = plain.lstrip() if trim else plain
        pieces.append(plain.rstrip() if match[1] else plain)
        body, trim, position = match[2].strip(), bool(match[3]), match.end()
        if not (body.startswith("/*") and body.endswith("*/")):
            pieces.append(_action(body))
    rest = text[position:]
    if "{{" in rest:
        raise TemplateError("unclosed action")
    pieces.append(rest.lstrip() if trim else rest)
    return pieces


def _action(body: str) -> _Action:
    tokens, position = [], 0
    while position < len(body.rstrip()):
        match = _TOKEN.match(body, position)
        if match is None:
            raise TemplateError(f"unexpected {body[position:]!r} in {{{{{body}}}}}")
        tokens.append((str(match.lastgroup), match[0].strip()))
        position = match.end()
    if not tokens:
        raise TemplateError("missing value for command")
    kind, first = tokens[0]
    if kind == "word" and first in _KEYWORDS:
        return _Action(first, tokens[1:])
    if kind == "word" and first in ("range", "define", "template", "block", "break", "continue"):
        raise TemplateError(f"{{{{{first}}}}} is not supported")
    return _Action("", tokens)


def _block(pieces: Sequence[str | _Action], start: int) -> tuple[list[Node], int, _Action | None]:
    """The nodes up to the end of a block, where it ends, and by which action."""
    nodes: list[Node] = []
    while start < len(pieces):
        piece = pieces[start]
        start += 1
        if isinstance(piece, str):
            if piece:
                nodes.append(lambda scope, text=piece: text)  # type: ignore[misc]
        elif piece.keyword in ("if", "with"):
            node, start = _branches(pieces, start, piece)
            nodes.append(node)
        elif piece.keyword:
            return nodes, start, piece
        else:
            nodes.append(_statement(piece.tokens))
    return nodes, start, None


def _branches(pieces: Sequence[str | _Action], start: int, opening: _Action) -> tuple[Node, int]:
    condition, with_dot = _statement(opening.tokens, keep=True), opening.keyword == "with"
    then, start, closing = _block(pieces, start)
    otherwise: list[Node] = []
    if closing is not None and closing.keyword == "else":
        if closing.tokens:
            if closing.tokens[0][1] not in ("if", "with"):
                raise TemplateError("expected {{else if}}")
            node, start = _branches(pieces, start, _Action(closing.tokens[0][1], closing.tokens[1:]))
            otherwise, closing = [node], _Action("end", [])
        else:
            otherwise, start, closing = _block(pieces, start)
    if closing is None or closing.keyword != "end":
        raise TemplateError("missing {{end}}")

    def run(scope: _Scope) -> str:
        value, dot = condition(scope), scope.dot
        if value and with_dot:
            scope.dot = value
        text = "".join(_show(node(scope)) for node in (then if value else otherwise))
        scope.dot = dot
        return text

    return run, start


def _statement(tokens: Sequence[tuple[str, str]], keep: bool = False) -> Node:
    """A pipeline, or `$name := pipeline`, which prints nothing unless its value is kept."""
    if len(tokens) > 2 and tokens[0][0] == "variable" and tokens[1][1] in (":=", "="):
        name, value = tokens[0][1], _Parser(tokens[2:]).parse()

        def assign(scope: _Scope) -> Any:
            scope.variables[name] = value(scope)
            return scope.variables[name] if keep else ""

        return assign
    return _Parser(tokens).parse()


class _Parser:
    """Pipelines: commands joined by `|`, each the last argument of the next."""

    def __init__(self, tokens: Sequence[tuple[str, str]]) -> None:
        self._tokens, self._at = tokens, 0

    def parse(self) -> Node:
        node = self._pipeline()
        if self._at < len(self._tokens):
            raise TemplateError(f"unexpected {self._tokens[self._at][1]!r}")
        return node

    def _next(self) -> tuple[str, str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _pipeline(self) -> Node:
        node = self._command(None)
        while (token := self._next()) is not None and token[1] == "|":
            self._at += 1
            node = self._command(node)
        return node

    def _command(self, last: Node | None) -> Node:
        token = self._next()
        if token is not None and token[0] == "word" and token[1] not in ("true", "false"):
            self._at += 1
            function = FUNCTIONS.get(token[1])
            if function is None:
                raise TemplateError(f'function "{token[1]}" not defined')
            arguments = []
            while (following := self._next()) is not None and following[1] not in ("|", ")"):
                arguments.append(self._operand())
            if last is not None:
                arguments.append(last)
            return _call(token[1], function, arguments)
        if last is not None:
            raise TemplateError("non-function in a pipeline")
        return self._operand()

    def _operand(self) -> Node:
        token = self._next()
        if token is None:
            raise TemplateError("missing value for command")
        self._at += 1
        kind, text = token
        if text == "(":
            node = self._pipeline()
            closing = self._next()
            if closing is None or closing[1] != ")":
                raise TemplateError("unclosed left paren")
            self._at += 1
            return node
        if kind == "field":
            return _field(text[1:])
        if kind == "variable":
            return _variable(text)
        if kind == "word" and text not in ("true", "false"):
            function = FUNCTIONS.get(text)
            if function is None:
                raise TemplateError(f'function "{text}" not defined')
            return _call(text, function, [])
        value = _literal(kind, text)
        return lambda scope: value


def _literal(kind: str, text: str) -> Any:
    if kind == "number":
        return float(text) if re.search(r"[.eE]", text) else int(text)
    if kind == "text":
        return text[1:-1] if text[0] == "`" else text[1:-1].encode().decode("unicode_escape")
    if text in ("true", "false"):
        return text == "true"
    raise TemplateError(f"unexpected {text!r}")


def _field(name: str) -> Node:
    def find(scope: _Scope) -> Any:
        return _member(scope.dot, name) if name else scope.dot

    return find


def _variable(text: str) -> Node:
    name, dot, field = text.partition(".")

    def find(scope: _Scope) -> Any:
        if name not in scope.variables:
            raise TemplateError(f"undefined variable {name}")
        value = scope.variables[name]
        return _member(value, field) if dot else value

    return find


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, Mapping) or name not in value:
        raise TemplateError(f"no value .{name}: there are .Index and .Count")
    return value[name]


def _call(name: str, function: Callable[..., Any], arguments: Sequence[Node]) -> Node:
    def run(scope: _Scope) -> Any:
        try:
            return function(*(argument(scope) for argument in arguments))
        except TypeError as error:
            raise TemplateError(f"{name}: {error}") from None

    return run
