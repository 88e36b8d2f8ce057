"""What can go wrong with an expression."""

from __future__ import annotations


class CelError(Exception):
    """Evaluation failed; the message is cel-go's."""


class CelCompileError(ValueError):
    """The text is not an expression, or uses a name that does not exist.

    A syntax error has an offset, the text that was found there, which is empty at the end, and what was
    expected instead if it is not the beginning of an expression.
    """

    def __init__(
        self, message: str, offset: int | None = None, unexpected: str = "", expected: str = ""
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.unexpected = unexpected
        self.expected = expected


class CostLimitExceededError(CelError):
    """Evaluation was cancelled because it did too much work. Logical operators do not absorb it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class NoSuchOverloadError(CelError):
    """A function or operator is not defined for values of these types."""


def no_such_overload(signature: str = "") -> NoSuchOverloadError:
    """For values of types that a function or operator is not defined for; cel-go names most functions."""
    return NoSuchOverloadError(f"no such overload: {signature}" if signature else "no such overload")
