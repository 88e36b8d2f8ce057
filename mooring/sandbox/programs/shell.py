"""A small shell: runs scripts of well-known commands in no time, and reports what they would have done.

Understood are lists, `if`, `while`, `for`, variables, `$(…)`, `$((…))`, redirections to files, and the
commands of `commands.py`. Everything else raises `UnknownProgramError`: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

MOST_STEPS: Final = 2_000  # commands of one run; a script that needs more is taken to run forever
MOST_OUTPUT: Final = 64 * 1024
LONGEST: Final = 16 * 1024  # characters of a script, a word or a file

_OPERATORS: Final = ("&&", "||", ";;", ">>", ";", "&", "|", "(", ")", ">", "<", "\n")
_KEYWORDS: Final = frozenset(
    ("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "in", "{", "}")
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_ARITHMETIC: Final = re.compile(r"\s*(?:(\d{1,18})|\$?([A-Za-z_]\w*)|(==|!=|<=|>=|[-+*/%()<>]))")


class UnknownProgramError(Exception):
    """The script uses something that is not emulated."""


class ForeverError(Exception):
    """The script does not end."""


class ExitError(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


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


# ---- reading


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
            tokens.append(word)
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
        end = _find(text, "))", at + 3)
        return Part("arithmetic", text[at + 3 : end], quoted), end + 2
    if text.startswith("$(", at):
        end = _closing(text, at + 2)
        return Part("command", text[at + 2 : end], quoted), end + 1
    if text.startswith("${", at):
        end = _find(text, "}", at + 2)
        return Part("variable", text[at + 2 : end], quoted), end + 1
    name = _NAME.match(text, at + 1)
    if name:
        return Part("variable", name.group(), quoted), name.end()
    if text[at + 1 : at + 2] in ("?", "$", "@", "#", "0", "1"):
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


# ---- running


class Shell:
    """One run of a script. `seconds` is the time that it has taken, `output` what it printed when; `started`
    is in seconds since the epoch, None if it is not known."""

    def __init__(
        self, variables: Mapping[str, str | None], files: dict[str, str], started: float | None = None
    ) -> None:
        self.started = started
        self.variables = dict(variables)
        self.files = files
        self.seconds = 0.0
        self.output: list[tuple[float, str]] = []
        self.status = 0
        self._captured: list[str] | None = None
        self._steps = 0
        self._printed = 0

    # ---- what commands use

    def print(self, text: str) -> None:
        """Write to the standard output."""
        if self._captured is not None:
            self._captured.append(text)
        elif text:
            self._printed += len(text)
            if self._printed > MOST_OUTPUT:
                raise ForeverError
            self.output.append((self.seconds, text))

    def step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise ForeverError

    def script(self, text: str) -> int:
        """Run a script in this shell."""
        tokens = tokenize(text)
        end = self._list(tokens, 0, (), run=True)
        if end < len(tokens):
            raise UnknownProgramError(f"unexpected {tokens[end]}")
        return self.status

    def command(self, words: list[str]) -> int:
        """Run one command."""
        from mooring.sandbox.programs.commands import find_command

        self.step()
        if not words:
            return 0
        self.status = find_command(words[0])(self, words[1:])
        return self.status

    # ---- grammar: each method returns the index after what it has read, and runs it if `run`

    def _list(self, tokens: list[Token], at: int, ends: tuple[str, ...], *, run: bool) -> int:
        while True:
            while at < len(tokens) and tokens[at] in (";", "\n"):
                at += 1
            if at >= len(tokens) or _keyword(tokens[at]) in ends or tokens[at] in ends:
                return at
            at = self._and_or(tokens, at, run=run)
            if at < len(tokens) and tokens[at] not in (";", "\n") and tokens[at] not in ends:
                raise UnknownProgramError(f"unexpected {tokens[at]}")

    def _and_or(self, tokens: list[Token], at: int, *, run: bool) -> int:
        at = self._one(tokens, at, run=run)
        while at < len(tokens) and tokens[at] in ("&&", "||"):
            wanted = tokens[at] == "&&"
            at += 1
            while at < len(tokens) and tokens[at] == "\n":
                at += 1
            at = self._one(tokens, at, run=run and (self.status == 0) == wanted)
        return at

    def _one(self, tokens: list[Token], at: int, *, run: bool) -> int:
        keyword = _keyword(tokens[at]) if at < len(tokens) else ""
        if keyword == "if":
            return self._if(tokens, at + 1, run=run)
        if keyword in ("while", "until"):
            return self._while(tokens, at + 1, keyword, run=run)
        if keyword == "for":
            return self._for(tokens, at + 1, run=run)
        if keyword == "{":
            return self._expect(tokens, self._list(tokens, at + 1, ("}",), run=run), "}")
        if keyword or at >= len(tokens):
            raise UnknownProgramError(f"unexpected {keyword}")
        return self._simple(tokens, at, run=run)

    def _expect(self, tokens: list[Token], at: int, keyword: str) -> int:
        if at >= len(tokens) or _keyword(tokens[at]) != keyword:
            raise UnknownProgramError(f"missing {keyword}")
        return at + 1

    def _if(self, tokens: list[Token], at: int, *, run: bool) -> int:
        at = self._expect(tokens, self._list(tokens, at, ("then",), run=run), "then")
        chosen = run and self.status == 0
        at = self._list(tokens, at, ("elif", "else", "fi"), run=chosen)
        status = self.status if chosen else 0
        keyword = _keyword(tokens[at]) if at < len(tokens) else ""
        if keyword == "elif":
            at = self._if(tokens, at + 1, run=run and not chosen)
        elif keyword == "else":
            at = self._expect(tokens, self._list(tokens, at + 1, ("fi",), run=run and not chosen), "fi")
        else:
            at = self._expect(tokens, at, "fi")
            self.status = status if run else self.status
        return at

    def _while(self, tokens: list[Token], start: int, keyword: str, *, run: bool) -> int:
        while True:
            if run:
                self.step()
            at = self._expect(tokens, self._list(tokens, start, ("do",), run=run), "do")
            goes_on = run and (self.status == 0) == (keyword == "while")
            at = self._expect(tokens, self._list(tokens, at, ("done",), run=goes_on), "done")
            if not goes_on:
                self.status = 0 if run else self.status
                return at

    def _for(self, tokens: list[Token], at: int, *, run: bool) -> int:
        variable = tokens[at] if at < len(tokens) else ""
        name = variable.bare if isinstance(variable, Word) else ""
        if not _NAME.fullmatch(name):
            raise UnknownProgramError("for")
        at = self._expect(tokens, at + 1, "in")
        values: list[str] = []
        while at < len(tokens) and isinstance(word := tokens[at], Word):
            values.extend(self._expand(word) if run else ())
            at += 1
        at = self._expect(tokens, at + 1, "do")
        end = self._expect(tokens, self._list(tokens, at, ("done",), run=False), "done")
        for value in values:
            self.step()
            self.variables[name] = value
            self._list(tokens, at, ("done",), run=run)
        return end

    def _simple(self, tokens: list[Token], at: int, *, run: bool) -> int:
        words: list[Word] = []
        target: tuple[Word, bool] | None = None
        while at < len(tokens):
            token = tokens[at]
            if isinstance(token, Word):
                words.append(token)
                at += 1
            elif token in (">", ">>"):
                following = tokens[at + 1] if at + 1 < len(tokens) else ""
                if following == "&" and words and words[-1].bare == "2":  # 2>&1: all output is one log here
                    words.pop()
                    at += 3
                    continue
                if not isinstance(following, Word):
                    raise UnknownProgramError("redirection")
                if words and words[-1].bare in ("1", "2"):
                    stream = words.pop().bare
                    target = (following, token == ">>") if stream == "1" else target
                else:
                    target = following, token == ">>"
                at += 2
            else:
                break
        if tokens[at : at + 1] and tokens[at] in ("&", "|", "(", ")", "<", ";;"):
            raise UnknownProgramError(f"{tokens[at]}")
        if run:
            self._run_simple(words, target)
        return at

    def _run_simple(self, words: list[Word], target: tuple[Word, bool] | None) -> None:
        assignments = 0
        for word in words:
            first = word.parts[0] if word.parts else None
            match = (
                _ASSIGNMENT.match(first.text) if first and first.kind == "text" and not first.quoted else None
            )
            if not match:
                break
            assert first is not None
            rest = Word((Part("text", first.text[match.end() :], False), *word.parts[1:]))
            self.variables[match.group(1)] = self._text(rest)
            assignments += 1
        arguments = [text for word in words[assignments:] for text in self._expand(word)]
        if not arguments:
            self.status = 0
            return
        if target is None:
            self.command(arguments)
            return
        path = self._text(target[0])
        text = self._capture(lambda: self.command(arguments))
        if path == "/dev/null":
            return
        if path in ("/dev/stdout", "/dev/stderr", "/proc/1/fd/1"):
            self.print(text)
            return
        content = (self.files.get(path, "") if target[1] else "") + text
        if len(content) > LONGEST:
            raise UnknownProgramError("too long")
        self.files[path] = content

    # ---- words

    def _expand(self, word: Word) -> list[str]:
        """Return the arguments that a word stands for: unquoted substitutions are split at spaces."""
        if all(part.quoted or part.kind == "text" for part in word.parts):
            return [self._text(word)]
        joined, quoted = "", any(part.quoted for part in word.parts)
        for part, text in zip(word.parts, self._texts(word), strict=True):
            if (
                part.kind != "text"
                and not part.quoted
                and len(word.parts) > 1
                and any(map(str.isspace, text))
            ):
                raise UnknownProgramError("words of several parts with spaces")
            joined += text
        return joined.split() if len(word.parts) == 1 else [joined] if joined or quoted else []

    def _text(self, word: Word) -> str:
        text = "".join(self._texts(word))
        if len(text) > LONGEST:
            raise UnknownProgramError("too long")
        return text

    def _texts(self, word: Word) -> Iterator[str]:
        for part in word.parts:
            if part.kind == "text":
                if (
                    not part.quoted
                    and any(char in part.text for char in "*?~")
                    and part.text not in ("*", "?")
                ):
                    raise UnknownProgramError("file name patterns")
                yield part.text
            elif part.kind == "variable":
                yield self._variable(part.text)
            elif part.kind == "command":
                yield self._capture(partial(self.script, part.text)).rstrip("\n")
            else:
                yield str(self._arithmetic(part.text))

    def _variable(self, name: str) -> str:
        if name == "?":
            return str(self.status)
        name, colon, default = name.partition(":-")
        if not _NAME.fullmatch(name):
            raise UnknownProgramError(f"${name}")
        value = self.variables.get(name, "")
        if value is None:
            raise UnknownProgramError(f"${name}")
        return value or (default if colon else "")

    def _capture(self, run: Callable[[], int]) -> str:
        before, self._captured = self._captured, []
        try:
            run()
            return "".join(self._captured)
        finally:
            self._captured = before

    def _arithmetic(self, text: str) -> int:
        tokens: list[str] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _ARITHMETIC.match(text, at)
            if match is None:
                raise UnknownProgramError("arithmetic")
            number, name, operator = match.groups()
            tokens.append(operator or number or self._variable(name) or "0")
            at = match.end()
        return Arithmetic(tokens).value()


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
            return {"+": left + right, "-": left - right, "*": left * right}[operator]
        results = {
            "<": left < right,
            ">": left > right,
            "<=": left <= right,
            ">=": left >= right,
            "!=": left != right,
        }
        return int(results.get(operator, left == right))


def _keyword(token: Token) -> str:
    return token.bare if isinstance(token, Word) and token.bare in _KEYWORDS else ""
