"""Options of commands, as getopt reads them."""

from __future__ import annotations

from typing import NamedTuple

from mooring.sandbox.programs.errors import UnknownProgramError


class Options(NamedTuple):
    """The options that a command knows: letters and words. `short` has the words of letters."""

    flags: frozenset[str]
    values: frozenset[str]
    short: dict[str, str]


class Given:
    """The options of one call."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._values

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._values)

    def add(self, name: str, value: str = "") -> None:
        self._values.setdefault(name, []).append(value)

    def get(self, name: str, default: str = "") -> str:
        """Return the last value of an option."""
        return self._values.get(name, [default])[-1]

    def all(self, name: str) -> list[str]:
        return list(self._values.get(name, ()))


def parse_options(name: str, words: list[str], options: Options) -> tuple[Given, list[str]]:
    """Return the options of a command and its other arguments. Raises UnknownProgramError."""
    given, left = Given(), list(words)
    rest: list[str] = []
    while left:
        word = left.pop(0)
        if word == "--":
            return given, rest + left
        if word.startswith("--"):
            _read_long(name, word, left, options, given)
        elif word.startswith("-") and len(word) > 1:
            _read_letters(name, word, left, options, given)
        else:
            rest.append(word)
    return given, rest


def _read_long(name: str, word: str, left: list[str], options: Options, given: Given) -> None:
    option, equals, value = word[2:].partition("=")
    if option in options.flags and not equals:
        given.add(option)
    elif option in options.values and (equals or left):
        given.add(option, value if equals else left.pop(0))
    else:
        raise UnknownProgramError(f"{name} {word}")


def _read_letters(name: str, word: str, left: list[str], options: Options, given: Given) -> None:
    for at, letter in enumerate(word[1:], 2):
        option = options.short.get(letter, letter)
        if letter in options.flags:
            given.add(option)
        elif letter in options.values and (word[at:] or left):
            given.add(option, word[at:] or left.pop(0))
            return
        else:
            raise UnknownProgramError(f"{name} {word}")
