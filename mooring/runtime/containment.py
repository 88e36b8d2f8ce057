"""Which exceptions of a plugin are contained: all, except those that come from outside of it.

`sys.exit()` in a plugin must not end the scheduler. Ctrl-C and the closing of a coroutine, which show up as
exceptions in the middle of a plugin's code, must still have their effect. Other exceptions that are no
`Exception`, such as a panic in an extension module, are contained like any.
"""

from __future__ import annotations

import dis
from typing import Final

CONTAINED: Final = (BaseException,)


class UncontainedError(BaseException):
    """Never contained: ends a rehearsal of a plugin."""


_FROM_OUTSIDE: Final = (KeyboardInterrupt, GeneratorExit)
_MOST_SHOWN = 1000  # characters of a value


def reraise_if_from_outside(exc: BaseException, *, awaited: bool = False) -> None:
    """Raise `exc` again unless the plugin raised it itself. To be called where CONTAINED is caught.

    What was `awaited` may have been cancelled; nothing cancels a plain call.
    """
    if isinstance(exc, UncontainedError):
        raise exc
    from_outside = isinstance(exc, _FROM_OUTSIDE) or (awaited and _is_cancellation(exc))
    if from_outside and not _has_raise_statement(exc):
        raise exc


def text_of(exc: BaseException) -> str:
    """The type and the text of an exception, which may have none, or fail to give it."""
    try:
        text = str(exc)
    except CONTAINED as failure:
        reraise_if_from_outside(failure)
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def shown(value: object) -> str:
    """How a value looks, as far as it can be shown."""
    try:
        text = repr(value)
    except CONTAINED as failure:
        reraise_if_from_outside(failure)
        return f"<{type(value).__name__} object>"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _is_cancellation(exc: BaseException) -> bool:
    """Whether it is asyncio's CancelledError, which is not imported here."""
    return not isinstance(exc, Exception) and type(exc).__module__ == "asyncio.exceptions"


def _has_raise_statement(exc: BaseException) -> bool:
    """Whether a `raise` statement raised the exception: Python interrupts code between other instructions."""
    origin = exc.__traceback__
    while origin is not None and origin.tb_next is not None:
        origin = origin.tb_next
    if origin is None:
        return False
    return dis.opname[origin.tb_frame.f_code.co_code[origin.tb_lasti]] == "RAISE_VARARGS"
