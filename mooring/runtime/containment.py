"""Which exceptions of a plugin are contained: all, except those that come from outside of it.

`sys.exit()` in a plugin must not end the scheduler. Ctrl-C and the closing of a coroutine, which show up as
exceptions in the middle of a plugin's code, must still have their effect.
"""

from __future__ import annotations

import dis
from typing import Final

CONTAINED: Final = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)

_FROM_OUTSIDE: Final = (KeyboardInterrupt, GeneratorExit)


def reraise_if_from_outside(exc: BaseException) -> None:
    """Raise `exc` again unless the plugin raised it itself. To be called where CONTAINED is caught."""
    if isinstance(exc, _FROM_OUTSIDE) and not _has_raise_statement(exc):
        raise exc


def _has_raise_statement(exc: BaseException) -> bool:
    """Whether a `raise` statement raised the exception: Python interrupts code between other instructions."""
    origin = exc.__traceback__
    while origin is not None and origin.tb_next is not None:
        origin = origin.tb_next
    if origin is None:
        return False
    return dis.opname[origin.tb_frame.f_code.co_code[origin.tb_lasti]] == "RAISE_VARARGS"
