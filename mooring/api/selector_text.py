"""Label selectors as text, in kubectl's notation: `app=web,tier in (front,back),!canary`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mooring.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    SelectorError,
    is_label_value,
    is_qualified_name,
    parse_int64,
)

_NAME: Final = (
    "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_REGEX: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
QUALIFIED_NAME: Final = (
    f"name part must consist of {_NAME} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_REGEX}')"
)
LABEL_VALUE: Final = (
    f"a valid label must be an empty string or consist of {_NAME} (e.g. 'MyValue',  or 'my_value',  or "
    f"'12345', regex used for validation is '({_REGEX})?')"
)
_TOKEN: Final = re.compile(r"\s*(?:([!=<>]=?|==|[(),])|([^\s!=<>(),]+)|$)")
_SYMBOLS: Final = frozenset({"!", "=", "==", "!=", ">", "<", ">=", "<=", "(", ")", ",", ""})
_OPERATORS: Final = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT, "in": IN, "notin": NOT_IN}


class SelectorTerm(NamedTuple):
    """One requirement as it was written."""

    key: str
    operator: str
    values: list[str]


def parse_selector(text: str) -> list[SelectorTerm]:
    """Parse a selector. Raises SelectorError in the API server's words."""
    tokens = _Tokens(text)
    terms: list[SelectorTerm] = []
    if tokens.next == "":
        return terms
    if not tokens.begin_term():
        raise SelectorError(f"found '{tokens.next}', expected: !, identifier, or 'end of string'")
    while True:
        try:
            terms.append(_term(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        separator = tokens.take()
        if separator == "":
            return terms
        if separator != ",":
            raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
        if not tokens.begin_term():
            raise SelectorError(f"found '{tokens.next}', expected: identifier after ','")


class _Tokens:
    """The symbols and words of a selector, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.next = ""
        self.take()

    def take(self) -> str:
        taken = self.next
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self.next = ""
        else:
            self._at = match.end()
            self.next = match.group(1) or match.group(2) or ""
        return taken

    def begin_term(self) -> bool:
        """Whether a term can begin here."""
        return self.next == "!" or self.next not in _SYMBOLS


def _term(tokens: _Tokens) -> SelectorTerm:
    absent = tokens.next == "!"
    if absent:
        tokens.take()
    key = tokens.take()
    if key in _SYMBOLS:
        raise SelectorError(f"found '{key}', expected: identifier")
    if not is_qualified_name(key):
        raise SelectorError(f"<nil>: Invalid value: {_quoted(key)}: {QUALIFIED_NAME}")
    if absent:
        return SelectorTerm(key, DOES_NOT_EXIST, [])
    if tokens.next in (",", ""):
        return SelectorTerm(key, EXISTS, [])
    symbol = tokens.take()
    operator = _OPERATORS.get(symbol)
    if operator is None:
        raise SelectorError(f"found '{symbol}', expected: in, notin, =, ==, !=, gt, lt")
    values = _set(tokens) if symbol in ("in", "notin") else [_value(tokens)]
    _check_values(key, operator, values)
    return SelectorTerm(key, operator, values)


def _value(tokens: _Tokens) -> str:
    value = "" if tokens.next in (",", "") else tokens.take()
    if value in _SYMBOLS and value:
        raise SelectorError(f"found '{value}', expected: identifier")
    return value


def _set(tokens: _Tokens) -> list[str]:
    opening = tokens.take()
    if opening != "(":
        raise SelectorError(f"found '{opening}' expected: '('")
    values, value = [], ""
    while True:
        token = tokens.take()
        if token in (",", ")"):
            values.append(value)
            value = ""
            if token == ")":
                return values
        elif token in _SYMBOLS or value:
            raise SelectorError(f"found '{token}', expected: ',' or ')'")
        else:
            value = token


def _check_values(key: str, operator: str, values: list[str]) -> None:
    if operator in (GT, LT) and parse_int64(values[0]) is None:
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise SelectorError(f"values[0]: Invalid value: {_quoted(values[0])}: {why}")
    for index, value in enumerate(values):
        if not is_label_value(value):
            raise SelectorError(f"values[{index}][{key}]: Invalid value: {_quoted(value)}: {LABEL_VALUE}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
