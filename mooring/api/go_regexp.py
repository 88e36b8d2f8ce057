"""Regular expressions as Go matches them: RE2's syntax, in time linear in the text.

Patterns come from users (CustomResourceDefinitions, CEL): none may stop the process by backtracking.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]


class PatternError(ValueError):
    """A pattern that RE2 does not accept, such as one with a lookahead. The text is Go's."""


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Any:
    """Return the compiled pattern, which has `search` and `finditer` as `re.Pattern` has."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        reason = error.args[0]
        raise PatternError(
            f"error parsing regexp: {reason.decode() if isinstance(reason, bytes) else reason}"
        ) from None
