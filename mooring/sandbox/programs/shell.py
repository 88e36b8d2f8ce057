"""A small shell: runs scripts of well-known commands in no time, and reports what they would have done.

Understood are lists, `&`, `if`, `while`, `for`, `case`, functions, subshells, variables, `$(…)`, `$((…))`,
`set -e`, redirections to files, and the commands of `commands`. Everything else raises `UnknownProgramError`:
nothing is guessed.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from mooring.sandbox.programs.errors import ExitError, ForeverError, ReturnError, UnknownProgramError
from mooring.sandbox.programs.expansion import Expansion
from mooring.sandbox.programs.files import NOT_THERE, FileError, Files
from mooring.sandbox.programs.images import UNKNOWN_IMAGE, Image
from mooring.sandbox.programs.listeners import Listener
from mooring.sandbox.programs.servers import Server
from mooring.sandbox.programs.stdin import EMPTY, Stdin
from mooring.sandbox.programs.wire import Client, LaterError, Wire
from mooring.sandbox.programs.words import ERRORS, NAME, OUTPUT, Part, Token, Word, tokenize
from mooring.sandbox.programs.work import PER_UNIT, Work

T = TypeVar("T")

MOST_STEPS: Final = 2_000  # commands of one run; a script that needs more is taken to run forever
MOST_TOKENS: Final = 20_000  # of all scripts that define functions
MOST_OUTPUT: Final = 64 * 1024
_ASKING: Final = 40  # units of work for each question to the network

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
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


class Shell(Expansion):
    """One run of a script. `seconds` is the time that it has taken, `output` what it printed when; `started`
    is in seconds since the epoch, None if it is not known. A variable that is None has a value that is not
    known. With `knows_image`, the image sets no variables of its own. The output of a hook is lost, except
    what it writes to that of the container."""

    def __init__(
        self,
        variables: Mapping[str, str | None],
        files: Files,
        started: float | None = None,
        *,
        image: Image = UNKNOWN_IMAGE,
        knows_image: bool = False,
        is_hook: bool = False,
    ) -> None:
        super().__init__()
        self.started = started
        self.variables = dict(variables)
        self.exported = set(variables)
        self.image = image
        self.knows_image = knows_image
        self._is_hook = is_hook
        self.files = files
        self.work = files.work
        self.seconds = 0.0
        self.output: list[tuple[float, str]] = []
        self.errors: set[int] = set()  # which of these went to the standard error output
        self.status = 0
        self.input: str | None = None  # what a pipe or a client provides
        self.stdin: Stdin | None = None  # of the container whose program it is
        self.server: Server | None = None  # what it serves
        self.listeners: list[Listener] = []
        self.wire: Wire | None = None  # to the network
        self.resumes_at = math.inf  # when it asks for what is not known yet
        self.waited = 0.0  # for the network
        self.functions: dict[str, tuple[list[Token], int]] = {}  # where their bodies begin
        self.term_handler = ""  # a script
        self.is_waiting = False  # in the condition of a loop
        self.background_end = 0.0  # when all commands in the background have ended
        self._tested = 0  # around what runs: conditions and others whose failure does not end the shell
        self._calls = 0  # of functions, one in another
        self._errors = ""  # where the error output goes: "" to the log, "&" to the output, or a path
        self.most_output = MOST_OUTPUT  # characters; a script that prints more is taken to run forever
        self._steps = 0
        self._printed = 0

    def begin(self, now: float, work: Work | None = None) -> None:
        """Forget what was printed, with a new budget of work: for the next line of a client."""
        self.started, self.seconds = now, 0.0
        self.output, self.errors = [], set()
        self.input = None
        self.work = self.files.work = work or Work()
        self._steps = self._printed = 0

    # ---- what commands use

    def print(self, text: str) -> None:
        """Write to the standard output."""
        self.work.copy(len(text))
        if self._captured is not None:
            self._captured.append(text)
        elif text and not self._is_hook:
            self._log(text)

    def complain(self, text: str) -> None:
        """Write to the standard error output."""
        if self._errors == "&":
            self.print(text)
        elif self._errors != "/dev/null" and not self._is_hook:
            self.errors.add(len(self.output))
            self._log(text)

    def _log(self, text: str) -> None:
        self._printed += len(text)
        if self._printed > self.most_output:
            raise ForeverError
        self.output.append((self.seconds, text))

    def ask(self, what: str, act: Callable[[Client], T]) -> T:
        """Ask the network. Raises NetworkError, LaterError, and UnknownProgramError where there is none."""
        if self.wire is None:
            raise UnknownProgramError("network")
        self.work.spend(_ASKING)
        try:
            return self.wire.ask(self.now, what, act, self.work)
        except LaterError:
            self.resumes_at = min(self.resumes_at, self.now)
            raise

    def wait(self, seconds: float) -> None:
        """Wait for an answer that does not come."""
        self.seconds += seconds
        self.waited += seconds

    @property
    def now(self) -> float:
        """The time by which files are read and written."""
        return (self.started or 0.0) + self.seconds

    def read_input(self) -> Iterator[str]:
        """Yield the standard input as it comes. Raises ForeverError where it does not end, and
        UnknownProgramError where there is none yet."""
        if self.input is not None:
            text, self.input = self.input, ""
            yield text
            return
        if self.stdin is None:
            raise UnknownProgramError("input")
        stdin, self.stdin = self.stdin, EMPTY
        for at, text in stdin.chunks:
            self.seconds = max(self.seconds, at)
            yield text
        if stdin.ends_at is None:
            raise ForeverError
        self.seconds = max(self.seconds, stdin.ends_at)

    @contextmanager
    def begin_shell(self, arguments: list[str], options: frozenset[str]) -> Iterator[None]:
        """Run a script as a shell of its own does, with arguments from $0 on."""
        with self.subshell():
            self.arguments, self.options, self._tested, self.status = arguments, options, 0, 0
            yield

    def step(self) -> None:
        self._steps += 1
        self.work.spend(1)
        if self._steps > MOST_STEPS:
            raise ForeverError

    def script(self, text: str) -> int:
        """Run a script in this shell."""
        self.work.spend(len(text) // 4)
        tokens = tokenize(text)
        end = self._list(tokens, 0, (), run=True)
        if end < len(tokens):
            raise UnknownProgramError(f"unexpected {tokens[end]}")
        return self.status

    def terminate(self) -> None:
        """Run what the signal to stop causes in a script that goes on forever; files stay as they are."""
        self.files, self.output, self._steps, self._tested = self.files.fork(), [], 0, 0
        self.work = self.files.work = Work()
        self.script(self.term_handler)

    def command(self, words: list[str]) -> int:
        """Run one command."""
        from mooring.sandbox.programs.commands.table import find_command

        self.step()
        self.work.spend(len(words))
        if not words:
            return 0
        if words[0] in self.functions:
            return self._call(*self.functions[words[0]], words[1:])
        self.status = find_command(words[0])(self, words[1:])
        return self.status

    def _call(self, tokens: list[Token], start: int, arguments: list[str]) -> int:
        outer, self.arguments = self.arguments, ["".join(self.arguments[:1]), *arguments]
        tested = self._tested
        self._calls += 1
        try:
            self._list(tokens, start, ("}",), run=True)
        except ReturnError as returned:
            self.status, self._tested = returned.code, tested
        finally:
            self.arguments = outer
            self._calls -= 1
        return self.status

    @property
    def is_in_function(self) -> bool:
        return self._calls > 0

    def substitute(self, text: str) -> int:
        """Run a script in a subshell, and return its status."""
        with self.subshell():
            self.script(text)
        self._substituted = self.status
        return self.status

    @contextmanager
    def subshell(self) -> Iterator[None]:
        """Run commands whose end, variables, functions and folder are not those of the shell."""
        kept = self.variables, self.exported, self.functions, self.arguments, self.options
        tested, folder = self._tested, self.files.folder
        self.work.spend(len(self.variables) // 8)
        self.variables, self.exported = dict(self.variables), set(self.exported)
        self.functions = dict(self.functions)
        try:
            yield
        except ExitError as ended:
            self.status = ended.code
        self.variables, self.exported, self.functions, self.arguments, self.options = kept
        self._tested, self.files.folder = tested, folder

    # ---- grammar: each method returns the index after what it has read, and runs it if `run`

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
            wanted = tokens[at] == "&&"
            at += 1
            while at < len(tokens) and tokens[at] == "\n":
                at += 1
            at = self._checked(tokens, at, run=run and (self.status == 0) == wanted)
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
        words: list[Word] = []
        target: tuple[Word, bool] | None = None
        errors, complains = "", False
        while at < len(tokens):
            token = tokens[at]
            if isinstance(token, Word):
                words.append(token)
                at += 1
            elif token in (OUTPUT, ERRORS, ">", ">>"):
                at += token in (OUTPUT, ERRORS)
                following = tokens[at + 1] if at + 1 < len(tokens) else ""
                if following == "&":
                    to = tokens[at + 2] if at + 2 < len(tokens) else ""
                    if not isinstance(to, Word) or to.bare != ("1" if token == ERRORS else "2"):
                        raise UnknownProgramError("redirection")
                    errors, complains = ("&", complains) if token == ERRORS else (errors, True)
                    at += 1
                elif not isinstance(following, Word):
                    raise UnknownProgramError("redirection")
                elif token != ERRORS:
                    target = following, tokens[at] == ">>"
                elif following.bare == "/dev/null":
                    errors = "/dev/null"
                else:
                    raise UnknownProgramError("redirection")
                at += 2
            else:
                break
        if tokens[at : at + 1] and tokens[at] in ("(", "<"):
            raise UnknownProgramError(f"{tokens[at]}")
        if run:
            before, self._errors = self._errors, errors or self._errors
            self._run_simple(words, target, complains=complains)
            self._errors = before
        return at

    def _run_simple(self, words: list[Word], target: tuple[Word, bool] | None, *, complains: bool) -> None:
        assignments = self._substituted = 0
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
        if "x" in self.options and arguments:
            self.complain(f"+ {shlex.join(arguments)}\n")
        if not arguments:
            self.status = self._substituted
            return
        if complains:
            self.complain(self._capture(lambda: self.command(arguments)))
            return
        if target is None:
            self.command(arguments)
            return
        path = self._text(target[0])
        text = self._capture(lambda: self.command(arguments))
        if path == "/dev/null":
            return
        if path == "/proc/1/fd/1":
            self._log(text)
            return
        if path in ("/dev/stdout", "/dev/stderr"):
            self.print(text)
            return
        self._write(path, text, append=target[1])

    def _write(self, path: str, text: str, *, append: bool) -> None:
        """Redirect output to a file."""
        try:
            before = self.files.read(path, self.now) if append else ""
            self.work.spend(len(before) // PER_UNIT)
        except (FileError, UnknownProgramError):
            before = ""
        try:
            self.files.write(path, before + text, self.now)
        except FileError as error:
            why = "nonexistent directory" if str(error) == NOT_THERE else str(error)
            self.complain(f"/bin/sh: can't create {path}: {why}\n")
            self.status = 1


def show_bytes(text: str) -> str:
    """Return text with a replacement character for each byte that is not UTF-8."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


def _keyword(token: Token) -> str:
    return token.bare if isinstance(token, Word) and token.bare in _KEYWORDS else ""
