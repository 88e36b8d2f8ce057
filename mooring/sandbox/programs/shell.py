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
from typing import Final, TypeVar

from mooring.sandbox.programs.errors import ExitError, ForeverError, ReturnError, UnknownProgramError
from mooring.sandbox.programs.file import NOT_THERE, FileError
from mooring.sandbox.programs.files import Files
from mooring.sandbox.programs.grammar import Grammar, SimpleCommand
from mooring.sandbox.programs.images import UNKNOWN_IMAGE, Image
from mooring.sandbox.programs.listeners import Listener
from mooring.sandbox.programs.servers import Server
from mooring.sandbox.programs.stdin import EMPTY, Stdin
from mooring.sandbox.programs.wire import Client, LaterError, Wire
from mooring.sandbox.programs.words import Part, Token, Word, tokenize
from mooring.sandbox.programs.work import PER_UNIT, Work

T = TypeVar("T")

MOST_STEPS: Final = 2_000  # commands of one run; a script that needs more is taken to run forever
MOST_OUTPUT: Final = 64 * 1024
_ASKING: Final = 40  # units of work for each question to the network

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


class Shell(Grammar):
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
        self.stdin: Stdin | None = None  # of the container whose program it is
        self.server: Server | None = None  # what it serves
        self.listeners: list[Listener] = []
        self.wire: Wire | None = None  # to the network
        self.resumes_at = math.inf  # when it asks for what is not known yet
        self.waited = 0.0  # for the network
        self.term_handler = ""  # a script
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

    # ---- simple commands

    def _run_simple(self, command: SimpleCommand) -> None:
        before, self._errors = self._errors, command.errors or self._errors
        arguments = self._arguments(command.words)
        if "x" in self.options and arguments:
            self.complain(f"+ {shlex.join(arguments)}\n")
        if not arguments:
            self.status = self._substituted
        elif command.complains:
            self.complain(self._capture(lambda: self.command(arguments)))
        elif command.target is None:
            self.command(arguments)
        else:
            path = self._text(command.target)
            text = self._capture(lambda: self.command(arguments))
            self._redirect(path, text, appends=command.appends)
        self._errors = before

    def _arguments(self, words: list[Word]) -> list[str]:
        """Assign the variables that come first, and return the command with its arguments."""
        assignments = self._substituted = 0
        for word in words:
            first = word.parts[0] if word.parts else None
            is_plain = first is not None and first.kind == "text" and not first.quoted
            match = _ASSIGNMENT.match(first.text) if first is not None and is_plain else None
            if first is None or match is None:
                break
            rest = Word((Part("text", first.text[match.end() :], False), *word.parts[1:]))
            self.variables[match.group(1)] = self._text(rest)
            assignments += 1
        return [text for word in words[assignments:] for text in self._expand(word)]

    def _redirect(self, path: str, text: str, *, appends: bool) -> None:
        if path == "/proc/1/fd/1":
            self._log(text)
        elif path in ("/dev/stdout", "/dev/stderr"):
            self.print(text)
        elif path != "/dev/null":
            self._write(path, text, append=appends)

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
