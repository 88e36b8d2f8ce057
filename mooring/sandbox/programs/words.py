"""The words and operators of a shell script."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mooring.sandbox.programs.errors import UnknownProgramError

LONGEST: Final = 16 * 1024  # characters of a script or a word
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

SPECIAL: Final = "?$@*#!-0123456789"
"""Names of variables of one character that are no letters."""

_OPERATORS: Final = ("&&", "||", ";;", ">>", ";", "&", "|", "(", ")", ">", "<", "\n")


class Part(NamedTuple):
    """A piece of a word: `text`, `variable`, `command` or `arithmetic`."""

    kind: str
    text: str
    quoted: bool


class Word(NamedTuple):
    parts: tuple[Part, ...]

    @property
    def bare(self) -> str:
        """The text of a word that nothing is to be substituted in and that is not quoted, or ""."""
        if len(self.parts) == 1 and self.parts[0].kind == "text" and not self.parts[0].quoted:
            return self.parts[0].text
        return ""


Token = Word | str  # operators are strings

OUTPUT, ERRORS = "1>", "2>"
"""Tokens in front of a redirection: of which output."""


def tokenize(text: str) -> list[Token]:
    """Split a script into words and operators."""
    if len(text) > LONGEST:
        raise UnknownProgramError("too long")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] in " \t\r" or text.startswith("\\\n", at):
            at += 2 if text[at] == "\\" else 1
        elif text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif operator := next((one for one in _OPERATORS if text.startswith(one, at)), ""):
            tokens.append(operator)
            at += len(operator)
        else:
            word, at = _read_word(text, at)
            is_descriptor = word.bare in ("1", "2") and text[at : at + 1] == ">"
            tokens.append(f"{word.bare}>" if is_descriptor else word)
    return tokens


def _read_word(text: str, at: int) -> tuple[Word, int]:
    parts: list[Part] = []
    plain = ""
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        char = text[at]
        if char not in "'\"\\$`":
            plain += char
            at += 1
            continue
        if plain:
            parts.append(Part("text", plain, False))
            plain = ""
        if char == "\\":
            parts.append(Part("text", text[at + 1 : at + 2], True))
            at += 2
        elif char == "'":
            end = _find(text, "'", at + 1)
            parts.append(Part("text", text[at + 1 : end], True))
            at = end + 1
        elif char == '"':
            inner, at = _read_quoted(text, at + 1)
            parts.extend(inner)
        else:
            part, at = _read_substitution(text, at, False)
            parts.append(part)
    if plain:
        parts.append(Part("text", plain, False))
    return Word(tuple(parts)), at


def _read_quoted(text: str, at: int) -> tuple[list[Part], int]:
    parts, plain = [], ""
    while True:
        if at >= len(text):
            raise UnknownProgramError("unterminated quote")
        char = text[at]
        if char == '"':
            parts.append(Part("text", plain, True))
            return parts, at + 1
        if char == "\\" and text[at + 1 : at + 2] in ("$", '"', "\\", "`"):
            plain += text[at + 1]
            at += 2
        elif char in "$`":
            parts.append(Part("text", plain, True))
            plain = ""
            part, at = _read_substitution(text, at, True)
            parts.append(part)
        else:
            plain += char
            at += 1


def _read_substitution(text: str, at: int, quoted: bool) -> tuple[Part, int]:
    if text[at] == "`":
        end = _find(text, "`", at + 1)
        return Part("command", text[at + 1 : end], quoted), end + 1
    if text.startswith("$((", at):
        end = _closing(text, at + 3)
        if not text.startswith("))", end):
            raise UnknownProgramError("missing ))")
        return Part("arithmetic", text[at + 3 : end], quoted), end + 2
    if text.startswith("$(", at):
        end = _closing(text, at + 2)
        return Part("command", text[at + 2 : end], quoted), end + 1
    if text.startswith("${", at):
        end = _find(text, "}", at + 2)
        return Part("variable", text[at + 2 : end], quoted), end + 1
    name = NAME.match(text, at + 1)
    if name:
        return Part("variable", name.group(), quoted), name.end()
    if text[at + 1 : at + 2] and text[at + 1] in SPECIAL:
        return Part("variable", text[at + 1], quoted), at + 2
    return Part("text", "$", quoted), at + 1


def _find(text: str, end: str, at: int) -> int:
    found = text.find(end, at)
    if found < 0:
        raise UnknownProgramError(f"missing {end}")
    return found


def _closing(text: str, at: int) -> int:
    depth = 1
    while at < len(text):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return at
        at += 1
    raise UnknownProgramError("missing )")
