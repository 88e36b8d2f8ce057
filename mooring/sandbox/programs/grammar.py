"""The grammar of a small shell: lists, pipelines, compound commands, functions, redirections."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, NamedTuple

from mooring.sandbox.programs.errors import ExitError, ForeverError, UnknownProgramError
from mooring.sandbox.programs.expansion import Expansion
from mooring.sandbox.programs.words import ERRORS, NAME, OUTPUT, Token, Word

MOST_TOKENS: Final = 20_000  # of all scripts that define functions
_KEYWORDS: Final = frozenset(
    (
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "do",
        "done",
        "for",
        "in",
        "case",
        "esac",
        "{",
        "}",
        "!",
    )
)


class SimpleCommand(NamedTuple):
    """Words with redirections. `errors` is where the error output goes: "" as before, "&" to the output, or a
    path; with `complains`, the output goes to the error output."""

    words: list[Word]
    target: Word | None = None
    appends: bool = False
    errors: str = ""
    complains: bool = False


class Grammar(Expansion):
    """Reads scripts. Each method returns the index after what it has read, and runs it if `run`."""

    seconds: float
    waited: float

    def __init__(self) -> None:
        super().__init__()
        self.input: str | None = None  # what a pipe or a client provides
        self.functions: dict[str, tuple[list[Token], int]] = {}  # where their bodies begin
        self.is_waiting = False  # in the condition of a loop
        self.background_end = 0.0  # when all commands in the background have ended
        self._tested = 0  # around what runs: conditions and others whose failure does not end the shell

    def step(self) -> None:
        """Account for a command."""
        raise NotImplementedError

    def subshell(self) -> AbstractContextManager[None]:
        """Run commands whose end, variables, functions and folder are not those of the shell."""
        raise NotImplementedError

    def _run_simple(self, command: SimpleCommand) -> None:
        """Run a command, or assign variables."""
        raise NotImplementedError

    def _list(self, tokens: list[Token], at: int, ends: tuple[str, ...], *, run: bool) -> int:
        while True:
            start = at
            while at < len(tokens) and tokens[at] in (";", "\n"):
                at += 1
            if at >= len(tokens) or _keyword(tokens[at]) in ends or tokens[at] in ends:
                self.work.spend(1 + at - start)
                return at
            if run and "&" in tokens and self._is_background(tokens, at):
                at = self._run_in_background(tokens, at)
            else:
                at = self._and_or(tokens, at, run=run)
            self.work.spend(1 + at - start)
            if at < len(tokens) and tokens[at] == "&":
                at += 1
            elif at < len(tokens) and tokens[at] not in (";", "\n") and tokens[at] not in ends:
                raise UnknownProgramError(f"unexpected {tokens[at]}")

    def _is_background(self, tokens: list[Token], at: int) -> bool:
        self.work.spend(len(tokens) // 16)
        end = self._and_or(tokens, at, run=False)
        return tokens[end : end + 1] == ["&"]

    def _run_in_background(self, tokens: list[Token], at: int) -> int:
        """Run commands in a shell of their own, while the script goes on."""
        before = self.seconds
        with self.subshell():
            try:
                self._and_or(tokens, at, run=True)
            except ForeverError:
                self.seconds = math.inf
        self.background_end = max(self.background_end, self.seconds)
        self.seconds, self.status = before, 0
        return self._and_or(tokens, at, run=False)

    def _and_or(self, tokens: list[Token], at: int, *, run: bool) -> int:
        at = self._checked(tokens, at, run=run)
        while at < len(tokens) and tokens[at] in ("&&", "||"):
            is_and = tokens[at] == "&&"
            at += 1
            while at < len(tokens) and tokens[at] == "\n":
                at += 1
            at = self._checked(tokens, at, run=run and (self.status == 0) == is_and)
        return at

    def _checked(self, tokens: list[Token], at: int, *, run: bool) -> int:
        """Run a pipeline. By `set -e`, the shell ends if it fails, unless that is tested."""
        if not (run and "e" in self.options):
            return self._pipeline(tokens, at, run=run)
        end = self._pipeline(tokens, at, run=False)
        is_tested = tokens[end : end + 1] in (["&&"], ["||"]) or _keyword(tokens[at]) == "!"
        self._tested += is_tested
        self._pipeline(tokens, at, run=True)
        self._tested -= is_tested
        if self.status and not (is_tested or self._tested) and "e" in self.options:
            raise ExitError(self.status)
        return end

    def _condition(self, tokens: list[Token], at: int, end: str, *, run: bool) -> int:
        """Run the commands whose status decides, up to a keyword."""
        self._tested += run
        at = self._expect(tokens, self._list(tokens, at, (end,), run=run), end)
        self._tested -= run
        return at

    def _pipeline(self, tokens: list[Token], at: int, *, run: bool) -> int:
        if at >= len(tokens) or _keyword(tokens[at]) != "!":
            return self._joined(tokens, at, run=run)
        at = self._joined(tokens, at + 1, run=run)
        self.status = int(not self.status) if run else self.status
        return at

    def _joined(self, tokens: list[Token], at: int, *, run: bool) -> int:
        """Run commands that are joined by pipes, one after another: each gets all that the one before
        prints, so those that take time are not understood."""
        self.work.spend(len(tokens) // 16)
        if not run or "|" not in tokens:
            at = self._one(tokens, at, run=run)
            while at < len(tokens) and tokens[at] == "|":
                at = self._one(tokens, at + 1, run=False)
            return at
        before, outer = self.seconds - self.waited, self.input
        start, failure = at, 0
        while True:
            end = self._one(tokens, at, run=False)
            if end >= len(tokens) or tokens[end] != "|":
                break
            self.input = self._capture(partial(self._run_one, tokens, at))
            failure = self.status or failure
            if self.seconds - self.waited > before:
                raise UnknownProgramError("a pipe that takes time")
            at = end + 1
        if at == start:
            self._one(tokens, at, run=True)
        else:
            self._run_one(tokens, at)
        if "pipefail" in self.options:
            self.status = self.status or failure
        self.input = outer
        return end

    def _run_one(self, tokens: list[Token], at: int) -> int:
        with self.subshell():
            self._one(tokens, at, run=True)
        return self.status

    def _one(self, tokens: list[Token], at: int, *, run: bool) -> int:
        keyword = _keyword(tokens[at]) if at < len(tokens) else ""
        if keyword == "if":
            return self._if(tokens, at + 1, run=run)
        if keyword in ("while", "until"):
            return self._while(tokens, at + 1, keyword, run=run)
        if keyword == "for":
            return self._for(tokens, at + 1, run=run)
        if keyword == "case":
            return self._case(tokens, at + 1, run=run)
        if tokens[at : at + 1] == ["("]:
            return self._parenthesised(tokens, at + 1, run=run)
        if keyword == "{":
            return self._expect(tokens, self._list(tokens, at + 1, ("}",), run=run), "}")
        if keyword or at >= len(tokens):
            raise UnknownProgramError(f"unexpected {keyword}")
        if tokens[at + 1 : at + 3] == ["(", ")"]:
            return self._function(tokens, at, run=run)
        return self._simple(tokens, at, run=run)

    def _expect(self, tokens: list[Token], at: int, keyword: str) -> int:
        if at >= len(tokens) or _keyword(tokens[at]) != keyword:
            raise UnknownProgramError(f"missing {keyword}")
        return at + 1

    def _function(self, tokens: list[Token], at: int, *, run: bool) -> int:
        word, start = tokens[at], at + 3
        while start < len(tokens) and tokens[start] == "\n":
            start += 1
        start = self._expect(tokens, start, "{")
        end = self._expect(tokens, self._list(tokens, start, ("}",), run=False), "}")
        if not isinstance(word, Word) or not NAME.fullmatch(word.bare):
            raise UnknownProgramError("a function without a name")
        if run:
            scripts = {id(one): len(one) for one, _ in self.functions.values()} | {id(tokens): len(tokens)}
            if sum(scripts.values()) > MOST_TOKENS:
                raise UnknownProgramError("too many functions")
            self.functions[word.bare] = tokens, start
            self.status = 0
        return end

    def _parenthesised(self, tokens: list[Token], at: int, *, run: bool) -> int:
        end = self._list(tokens, at, (")",), run=False)
        if tokens[end : end + 1] != [")"]:
            raise UnknownProgramError("missing )")
        if run:
            with self.subshell():
                self._list(tokens, at, (")",), run=True)
        return end + 1

    def _case(self, tokens: list[Token], at: int, *, run: bool) -> int:
        word = tokens[at] if at < len(tokens) else ""
        if not isinstance(word, Word):
            raise UnknownProgramError("case")
        text = self._text(word) if run else ""
        at, is_over = self._expect(tokens, at + 1, "in"), not run
        while True:
            while tokens[at : at + 1] in (["\n"], ["("]):
                at += 1
            if at < len(tokens) and _keyword(tokens[at]) == "esac":
                self.status = 0 if run and not is_over else self.status
                return at + 1
            at, matches = self._patterns(tokens, at, None if is_over else text)
            at = self._list(tokens, at, (";;", "esac"), run=matches)
            is_over |= matches
            at += tokens[at : at + 1] == [";;"]

    def _patterns(self, tokens: list[Token], at: int, text: str | None) -> tuple[int, bool]:
        """Read the patterns of a case, and return whether one matches."""
        matches = False
        while at < len(tokens) and isinstance(word := tokens[at], Word):
            matches |= text is not None and self._matches(text, word)
            at += 2
            if tokens[at - 1 : at] == [")"]:
                return at, matches
            if tokens[at - 1 : at] != ["|"]:
                break
        raise UnknownProgramError("case")

    def _if(self, tokens: list[Token], at: int, *, run: bool) -> int:
        at = self._condition(tokens, at, "then", run=run)
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
            self.is_waiting = run
            at = self._condition(tokens, start, "do", run=run)
            self.is_waiting = False
            goes_on = run and (self.status == 0) == (keyword == "while")
            at = self._expect(tokens, self._list(tokens, at, ("done",), run=goes_on), "done")
            if not goes_on:
                self.status = 0 if run else self.status
                return at

    def _for(self, tokens: list[Token], at: int, *, run: bool) -> int:
        variable = tokens[at] if at < len(tokens) else ""
        name = variable.bare if isinstance(variable, Word) else ""
        if not NAME.fullmatch(name):
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
        command = SimpleCommand([])
        while at < len(tokens):
            token = tokens[at]
            if isinstance(token, Word):
                command.words.append(token)
                at += 1
            elif token in (OUTPUT, ERRORS, ">", ">>"):
                at, command = _redirection(tokens, at, command)
            else:
                break
        if tokens[at : at + 1] and tokens[at] in ("(", "<"):
            raise UnknownProgramError(f"{tokens[at]}")
        if run:
            self._run_simple(command)
        return at


def _redirection(tokens: list[Token], at: int, command: SimpleCommand) -> tuple[int, SimpleCommand]:
    """Read a redirection; return the index after it, and the command with it."""
    is_error = tokens[at] == ERRORS
    at += tokens[at] in (OUTPUT, ERRORS)
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if following == "&":
        to = tokens[at + 2] if at + 2 < len(tokens) else ""
        if not isinstance(to, Word) or to.bare != ("1" if is_error else "2"):
            raise UnknownProgramError("redirection")
        return at + 3, command._replace(errors="&") if is_error else command._replace(complains=True)
    if not isinstance(following, Word) or (is_error and following.bare != "/dev/null"):
        raise UnknownProgramError("redirection")
    if is_error:
        return at + 2, command._replace(errors="/dev/null")
    return at + 2, command._replace(target=following, appends=tokens[at] == ">>")


def _keyword(token: Token) -> str:
    return token.bare if isinstance(token, Word) and token.bare in _KEYWORDS else ""
