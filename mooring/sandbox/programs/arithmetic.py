"""Arithmetic of a shell."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.programs.errors import UnknownProgramError

MOST: Final = 2**63 - 1


class Arithmetic:
    """Integers with + - * / % and comparisons, as in `$((…))` and `expr`."""

    LEVELS: Final = (("==", "!=", "<", ">", "<=", ">=", "="), ("+", "-"), ("*", "/", "%"))

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def value(self) -> int:
        value = self._level(0)
        if self._at < len(self._tokens):
            raise UnknownProgramError("arithmetic")
        return value

    def _level(self, level: int) -> int:
        if level == len(self.LEVELS):
            return self._operand()
        value = self._level(level + 1)
        while self._at < len(self._tokens) and (operator := self._tokens[self._at]) in self.LEVELS[level]:
            self._at += 1
            value = self._apply(operator, value, self._level(level + 1))
        return value

    def _operand(self) -> int:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        self._at += 1
        if token == "(":
            value = self._level(0)
            if self._tokens[self._at : self._at + 1] != [")"]:
                raise UnknownProgramError("arithmetic")
            self._at += 1
            return value
        if token == "-":
            return -self._operand()
        if not (token.isascii() and token.isdigit()) or len(token) > 18:
            raise UnknownProgramError("arithmetic")
        return int(token)

    @staticmethod
    def _apply(operator: str, left: int, right: int) -> int:
        if operator in ("/", "%"):
            if not right:
                raise UnknownProgramError("division by zero")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if operator == "/" else left - quotient * right
        if operator in ("+", "-", "*"):
            value = {"+": left + right, "-": left - right, "*": left * right}[operator]
            if abs(value) > MOST:
                raise UnknownProgramError("arithmetic")
            return value
        results = {
            "<": left < right,
            ">": left > right,
            "<=": left <= right,
            ">=": left >= right,
            "!=": left != right,
        }
        return int(results.get(operator, left == right))
