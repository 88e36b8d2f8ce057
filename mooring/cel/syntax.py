"""From text to a syntax tree: the grammar of CEL with optional syntax, by recursive descent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mooring.cel.cel_errors import CelCompileError

MAX_LENGTH = 100_000  # cel-go's limit on code points


class Literal(NamedTuple):
    value: Any


class Ident(NamedTuple):
    name: str


class Select(NamedTuple):
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    optional: bool = False


class Index(NamedTuple):
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    optional: bool = False


class Call(NamedTuple):
    """A function or, with a target, a method. Operators are functions named by their sign."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


class ListNode(NamedTuple):
    items: tuple[tuple[Node, bool], ...]  # with whether the item is optional


class MapNode(NamedTuple):
    entries: tuple[tuple[Node, Node, bool], ...]


class StructNode(NamedTuple):
    """`Name{field: value}`, a value of a type with fields."""

    name: str
    fields: tuple[tuple[str, Node, bool], ...]


class Fold(NamedTuple):
    """What a macro stands for: a loop over a range that computes `accumulator` step by step. `second` is the
    second variable of macros that have one."""

    range: Node
    variable: str
    second: str
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


class Presence(NamedTuple):
    """What `has(operand.field)` stands for."""

    operand: Node
    field: str


Node = Literal | Ident | Select | Index | Call | ListNode | MapNode | StructNode | Fold | Presence
"""What `parse` returns has no Fold and no Presence; `mooring.cel.expansion` replaces macros by them."""


def parts(node: Node) -> Iterator[Node]:
    """Return the nodes that a node is made of."""
    if isinstance(node, Select | Presence):
        yield node.operand
    elif isinstance(node, Index):
        yield node.operand
        yield node.key
    elif isinstance(node, Call):
        yield from node.args if node.target is None else (node.target, *node.args)
    elif isinstance(node, ListNode):
        yield from (item for item, _ in node.items)
    elif isinstance(node, MapNode):
        for key, value, _ in node.entries:
            yield key
            yield value
    elif isinstance(node, StructNode):
        yield from (value for _, value, _ in node.fields)
    elif isinstance(node, Fold):
        yield from (node.range, node.start, node.condition, node.step, node.result)


class UInt(int):
    """An unsigned integer, as in `1u`."""

    __slots__ = ()


_TOKEN = re.compile(
    r"""
    (?P<space>[\t\n\f\r ]+|//[^\n]*)
  | (?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
  | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|\d+)
  | (?P<text>(?:[bB][rR]?|[rR][bB]?)?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
        |"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'))
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<op>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(
    r"""(?P<prefix>[bB]?[rR][bB]?)(?P<text>\"\"\".*?\"\"\"|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')""",
    re.VERBOSE | re.DOTALL,
)
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xX]([0-9a-fA-F]{2})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_MOST_DIGITS = 400  # Go ignores leading zeros, Python has a limit on conversions
_ARGUMENT_OR_END = (
    "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}"
)
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=")


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse(source: str) -> Node:
    """The tree of an expression; CelCompileError where it is not one."""
    return parse_located(source)[0]


def parse_located(source: str) -> tuple[Node, Mapping[int, int]]:
    """The tree of an expression, and the offsets of its parts by the `id` of their nodes."""
    if len(source) > MAX_LENGTH:
        raise CelCompileError(
            f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        )
    parser = _Parser(source)
    return parser.parse(), parser.offsets


def _tokens(source: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(source):
        match = _RAW.match(source, position) or _TOKEN.match(source, position)
        if match is None:
            text = source[position]
            raise CelCompileError(f"syntax error at {position}: unexpected {text!r}", position, text)
        kind = "text" if match.re is _RAW else str(match.lastgroup)
        if kind != "space":
            tokens.append(_Token(kind, match.group(), position))
        position = match.end()
    tokens.append(_Token("end", "", position))
    return tokens


class _Parser:
    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)
        self._at = 0
        self.offsets: dict[int, int] = {}

    def parse(self) -> Node:
        node = self._expression()
        if self._next.kind != "end":
            self._fail()
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _fail(self, expected: str = "") -> Any:
        token = self._next
        raise CelCompileError(
            f"syntax error at {token.position}: unexpected {token.text or 'end of expression'!r}",
            token.position,
            token.text,
            expected,
        )

    def _located(self, node: Node, offset: int) -> Node:
        self.offsets[id(node)] = offset
        return node

    def _take(self, *texts: str) -> str | None:
        """Consume an operator if it is one of these."""
        token = self._next
        if token.kind == "op" and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            self._fail(text if text == ")" else "")

    def _more(self, end: str) -> bool:
        """Consume a comma, or the end of a list."""
        if self._take(","):
            return True
        if self._take(end) is None:
            self._fail(end if end == ")" else f"{{'{end}', ','}}")
        return False

    def _expression(self) -> Node:
        node = self._chain("||", lambda: self._chain("&&", self._relation))
        offset = self._next.position
        if self._take("?"):
            yes = self._chain("||", lambda: self._chain("&&", self._relation))
            self._expect(":")
            node = self._located(Call("?:", None, (node, yes, self._expression())), offset)
        return node

    def _chain(self, operator: str, operand: Any) -> Node:
        """Operands joined by `&&` or `||`, as one call with all of them."""
        operands: list[Node] = [operand()]
        offset = self._next.position
        while self._take(operator):
            operands.append(operand())
        if len(operands) == 1:
            return operands[0]
        return self._located(Call(operator, None, tuple(operands)), offset)

    def _relation(self) -> Node:
        node = self._sum()
        while True:
            offset = self._next.position
            operator = self._take(*_RELATIONS)
            if operator is None and self._next == ("ident", "in", self._next.position):
                operator = self._next.text
                self._at += 1
            if operator is None:
                return node
            node = self._located(Call(operator, None, (node, self._sum())), offset)

    def _sum(self) -> Node:
        node, offset = self._product(), self._next.position
        while operator := self._take("+", "-"):
            node = self._located(Call(operator, None, (node, self._product())), offset)
            offset = self._next.position
        return node

    def _product(self) -> Node:
        node, offset = self._unary(), self._next.position
        while operator := self._take("*", "/", "%"):
            node = self._located(Call(operator, None, (node, self._unary())), offset)
            offset = self._next.position
        return node

    def _unary(self) -> Node:
        offset = self._next.position
        sign = self._take("!", "-")
        if sign is None:
            return self._member()
        following = self._next
        if sign == "-" and following.kind in ("int", "float"):
            self._at += 1
            return self._postfix(self._located(Literal(_number(following, "-")), offset))
        return self._located(Call("!" if sign == "!" else "neg", None, (self._unary(),)), offset)

    def _member(self) -> Node:
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        while True:
            offset = self._next.position
            if self._take("."):
                optional = self._take("?") is not None
                field = self._field()
                opening = self._next.position
                if not optional and self._take("("):
                    node = self._located(Call(field, node, self._arguments(")")), opening)
                else:
                    node = self._located(Select(node, field, optional), offset)
            elif self._take("["):
                optional = self._take("?") is not None
                node = self._located(Index(node, self._expression(), optional), offset)
                self._expect("]")
            elif (name := qualified_name(node)) and self._take("{"):
                node = self._located(StructNode(name, self._fields()), offset)
            else:
                return node

    def _field(self) -> str:
        token = self._next
        if token.kind not in ("ident", "quoted"):
            self._fail("." if token.kind == "end" else "")
        self._at += 1
        return token.text.strip("`")

    def _arguments(self, end: str) -> tuple[Node, ...]:
        args: list[Node] = []
        if not self._take(end):
            if self._next.kind == "end":
                self._fail(_ARGUMENT_OR_END)
            args.append(self._expression())
            while self._more(end):
                args.append(self._expression())
        return tuple(args)

    def _primary(self) -> Node:
        token = self._next
        if token.kind in ("int", "uint", "float"):
            self._at += 1
            return self._located(Literal(_number(token)), token.position)
        if token.kind == "text":
            self._at += 1
            return self._located(Literal(_text(token)), token.position)
        if token.kind == "ident" or (token.kind == "op" and token.text == "."):
            return self._name()
        if self._take("("):
            node = self._expression()
            self._expect(")")
            return node
        if self._take("["):
            return self._located(ListNode(self._items()), token.position)
        if self._take("{"):
            return self._located(MapNode(self._entries()), token.position)
        return self._fail()  # type: ignore[no-any-return]

    def _name(self) -> Node:
        self._take(".")  # a leading dot means the root container, which is the only one here
        token = self._next
        if token.kind != "ident":
            self._fail()
        self._at += 1
        constants: dict[str, Any] = {"true": True, "false": False, "null": None}
        if token.text in constants:
            return self._located(Literal(constants[token.text]), token.position)
        if token.text in _RESERVED or token.text == "in":
            raise CelCompileError(f"reserved identifier: {token.text}")
        opening = self._next.position
        if self._take("("):
            return self._located(Call(token.text, None, self._arguments(")")), opening)
        return self._located(Ident(token.text), token.position)

    def _items(self) -> tuple[tuple[Node, bool], ...]:
        items = []
        while not self._take("]"):
            optional = self._take("?") is not None
            items.append((self._expression(), optional))
            if not self._more("]"):
                break
        return tuple(items)

    def _fields(self) -> tuple[tuple[str, Node, bool], ...]:
        fields = []
        while not self._take("}"):
            optional = self._take("?") is not None
            name, colon = self._field(), self._next.position
            self._expect(":")
            field = name, self._expression(), optional
            fields.append(field)
            self.offsets[id(field)] = colon
            if not self._more("}"):
                break
        return tuple(fields)

    def _entries(self) -> tuple[tuple[Node, Node, bool], ...]:
        entries = []
        while not self._take("}"):
            optional = self._take("?") is not None
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
            if not self._more("}"):
                break
        return tuple(entries)


def qualified_name(node: Node) -> str:
    """`a.b.c` for selections on a name; "" for anything else."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.optional:
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""


def _number(token: _Token, sign: str = "") -> int | float:
    text = token.text
    if token.kind == "float":
        return float(sign + text)
    unsigned = token.kind == "uint"
    digits = text.rstrip("uU") if unsigned else text
    base = 16 if digits.startswith("0x") else 10
    value = int(sign + digits, base) if len(digits) <= _MOST_DIGITS else None
    lowest, highest = (0, 2**64 - 1) if unsigned else (-(2**63), 2**63 - 1)
    if value is None or not lowest <= value <= highest:
        raise CelCompileError(f"invalid {'uint' if unsigned else 'int'} literal")
    return UInt(value) if unsigned else value


def _text(token: _Token) -> str | bytes:
    text = token.text
    prefix = text[: min(text.find(quote) % (len(text) + 1) for quote in "\"'")].lower()
    body = text[len(prefix) :]
    quote = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quote:-quote]
    if "r" not in prefix:
        body = _ESCAPE.sub(lambda match: _unescape(match, token, "b" in prefix), body)
    if "b" not in prefix:
        return body
    # In a bytes literal numeric escapes are octets, which _unescape keeps as private characters.
    return b"".join(
        bytes([ord(c) - 0x10F000]) if 0x10F000 <= ord(c) <= 0x10F0FF else c.encode() for c in body
    )


def _unescape(match: re.Match[str], token: _Token, octets: bool) -> str:
    four, eight, pair, octal, single = match.groups()
    if single is not None:
        if single not in _SIMPLE:
            raise CelCompileError(f"syntax error at {token.position}: unable to unescape string")
        return _SIMPLE[single]
    code = int(octal, 8) if octal else int(four or eight or pair, 16)
    if octets and (octal or pair):
        return chr(0x10F000 + code)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CelCompileError(f"syntax error at {token.position}: invalid unicode code point")
    return chr(code)
