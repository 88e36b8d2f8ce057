"""What a terminal echoes, and the lines that it hands on."""

from __future__ import annotations

import pytest

from mooring.sandbox.apiserver.http.terminal import LONGEST, Terminal


@pytest.mark.parametrize(
    ("keys", "echo", "lines"),
    [
        ("ls\r", "ls\r\n", ["ls"]),
        ("a\nb\n", "a\r\nb\r\n", ["a", "b"]),
        ("lx\x7fs\r", "lx\b \bs\r\n", ["ls"]),
        ("\b\x7fls\r", "ls\r\n", ["ls"]),
        ("sleep\x03ls\r", "sleep^C\r\n$ ls\r\n", ["ls"]),
        ("\x1b[A\x1b[3~ls\x1b[1;5D\r", "ls\r\n", ["ls"]),
        ("\tls\x00\r", "ls\r\n", ["ls"]),
        ("é\x7fe\r", "é\b \be\r\n", ["e"]),
    ],
)
def test_keys(keys: str, echo: str, lines: list[str]) -> None:
    terminal = Terminal()
    assert "".join(map(terminal.typed, keys)) == echo
    assert [*terminal.lines] == lines
    assert not terminal.is_at_end


def test_the_end() -> None:
    terminal = Terminal()
    terminal.typed("a\x04")
    assert not terminal.is_at_end
    terminal.typed("\r\x04")
    assert terminal.is_at_end


def test_lines_are_bounded() -> None:
    terminal = Terminal()
    assert len(terminal.typed("x" * 3 * LONGEST)) == LONGEST
