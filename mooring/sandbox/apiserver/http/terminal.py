"""The terminal of an interactive shell: echoes and edits what is typed, line by line."""

from __future__ import annotations

from collections import deque
from typing import Final

PROMPT: Final = "$ "
LONGEST: Final = 4096  # characters of a line, as in a terminal of Linux
_ERASE: Final = "\b \b"
INTERRUPT: Final = b"\x03"
_INTERRUPT, _END, _ESCAPE = "\x03", "\x04", "\x1b"


class Terminal:
    """What is typed between two prompts. `typed` takes keys and returns what they echo; complete lines are in
    `lines`, and `is_at_end` is set by Ctrl-D."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.is_at_end = False
        self._line = ""
        self._in_escape = False

    def typed(self, text: str) -> str:
        return "".join(map(self._key, text))

    def _key(self, key: str) -> str:
        if self._in_escape:  # arrow keys and the like: ESC [ parameters letter
            self._in_escape = not (key.isalpha() or key == "~")
        elif key == _ESCAPE:
            self._in_escape = True
        elif key in "\r\n":
            self.lines.append(self._line)
            self._line = ""
            return "\r\n"
        elif key in "\b\x7f":
            erased, self._line = self._line[-1:], self._line[:-1]
            return _ERASE if erased else ""
        elif key == _INTERRUPT:
            self._line = ""
            return f"^C\r\n{PROMPT}"
        elif key == _END:
            self.is_at_end = self.is_at_end or not self._line
        elif key.isprintable() and len(self._line) < LONGEST:
            self._line += key
            return key
        return ""
