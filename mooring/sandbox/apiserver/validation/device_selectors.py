"""CEL selectors of devices: length, types, and what they can cost."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mooring.cel import CelCompileError, CelError
from mooring.cel.counting import CountingProgram
from mooring.cel.device_selector import COST_LIMIT, check_selector, estimate_selector
from mooring.sandbox.apiserver.errors import (
    Cause,
    forbidden_value,
    internal_value,
    invalid_value,
    required,
    too_long,
)
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.fields import Causes

_MAX_BYTES: Final = 10 * 1024


def device_selector(path: str, selector: Tree) -> Causes:
    cel = selector.get("cel")
    if cel is None:
        yield required(f"{path}.cel")
        return
    field, expression = f"{path}.cel.expression", cel.get("expression", "")
    if len(expression.encode()) > _MAX_BYTES:
        yield too_long(field, _MAX_BYTES)
        return
    problem = _problem(expression)
    if problem is not None:
        yield problem._replace(field=field)


@lru_cache(maxsize=1024)
def _problem(expression: str) -> Cause | None:
    """Return what is wrong with an expression, whatever its field."""
    try:
        checked = check_selector(expression)
        CountingProgram(checked)  # computes constants
    except CelCompileError as error:
        return invalid_value("", expression, str(error))
    except CelError as error:
        return internal_value("", f"program instantiation failed: {error}")
    if estimate_selector(checked) > COST_LIMIT:
        return forbidden_value("", "too complex, exceeds cost limit")
    return None
