"""Text from a cluster or a file, made safe for a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text with control characters, except line ends and tabs, as escapes such as \\x1b; also lone
    surrogates, which cannot be encoded."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
