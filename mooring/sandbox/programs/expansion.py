"""What a shell makes of the words of a script: variables, substitutions, arithmetic."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from mooring.sandbox.programs.arithmetic import Arithmetic
from mooring.sandbox.programs.environment import may_be_set
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.patterns import compile_pattern
from mooring.sandbox.programs.words import LONGEST, NAME, Part, Word
from mooring.sandbox.programs.work import Work

_OWN: Final = frozenset(("RANDOM", "PPID", "SECONDS", "LINENO"))
"""Variables that a shell sets itself."""
_URL: Final = re.compile(r"(?:https?://)?[\w.:-]+/[^*~?]*\?\w+=[^*~?]*")
"""With a query; no file has such a name, so the shell leaves it as it is."""
_ARITHMETIC: Final = re.compile(r"\s*(?:(\d{1,18})|\$?([A-Za-z_]\w*)|(==|!=|<=|>=|[-+*/%()<>]))")


_ALL_ARGUMENTS: Final = Part("variable", "@", True)


class Expansion:
    """Expands words with the variables and arguments of a shell."""

    work: Work
    variables: dict[str, str | None]
    status: int

    def __init__(self) -> None:
        self.options: frozenset[str] = frozenset()  # those of `set`, by letter or name
        self.arguments: list[str] = []  # $0 and those of the script or the function
        self._captured: list[str] | None = None
        self._substituted = 0  # the status of the last substitution

    def substitute(self, text: str) -> int:
        """Run a script in a subshell, and return its status."""
        raise NotImplementedError

    def _expand(self, word: Word) -> list[str]:
        """Return the arguments that a word stands for: unquoted substitutions are split at spaces."""
        if [part for part in word.parts if part.text] == [_ALL_ARGUMENTS]:
            return self.arguments[1:]
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
                    and not _URL.fullmatch(part.text)
                ):
                    raise UnknownProgramError("file name patterns")
                yield part.text
            elif part.kind == "variable":
                value = self._variable(part.text)
                self.work.copy(len(value))
                yield value
            elif part.kind == "command":
                yield self._capture(partial(self.substitute, part.text)).rstrip("\n")
            else:
                yield str(self._arithmetic(part.text))

    def _matches(self, text: str, word: Word) -> bool:
        """Whether a text matches a pattern; what is quoted in it stands for itself."""
        pattern = ""
        for part in word.parts:
            piece = part.text if part.kind == "text" else self._text(Word((part,)))
            pattern += glob.escape(piece) if part.quoted else piece
        return compile_pattern(pattern, self.work)(text)

    def _variable(self, name: str) -> str:
        if name == "?":
            return str(self.status)
        name, colon, default = name.partition(":-")
        required = not colon and name.endswith(":?")
        name = name.removesuffix(":?") if required else name
        if name in ("#", "@", "*") or name.isdecimal():
            return self._argument(name) or (default if colon else "")
        if not NAME.fullmatch(name):
            raise UnknownProgramError(f"${name}")
        if name not in self.variables and (name in _OWN or may_be_set(name, self.variables)):
            raise UnknownProgramError(f"${name}")
        must_be_set = "u" in self.options and not colon and name not in self.variables
        value = self.variables.get(name, "")
        if value is None or must_be_set or (required and not value):
            raise UnknownProgramError(f"${name}")
        return value or (default if colon else "")

    def _argument(self, name: str) -> str:
        """Return an argument of the script or the function, how many there are, or all of them."""
        if name == "#":
            return str(len(self.arguments[1:]))
        if name in ("@", "*"):
            return " ".join(self.arguments[1:])
        if name == "0" and not self.arguments:
            raise UnknownProgramError("$0")
        return "".join(self.arguments[int(name[:4]) :][:1])

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
