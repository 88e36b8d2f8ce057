"""Names of properties as CEL expressions write them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_KEYWORDS: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
        "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_ESCAPED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL: Final = re.compile(r"__|[-./]")
_ALLOWED: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", re.ASCII)


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Return the identifier of a property; None if expressions cannot refer to it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if _ALLOWED.fullmatch(name) is None:
        return None
    return _SPECIAL.sub(lambda match: _ESCAPED[match[0]], name)
