"""CEL selectors of devices: length, syntax, names, and the types that are certain."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mooring.sandbox.apiserver.errors import invalid_value, required, too_long
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.expression_check import Declarations, check_expression, full_name
from mooring.sandbox.apiserver.validation.expression_types import ANY, BOOL, DYNAMIC, QUANTITY, TEXT
from mooring.sandbox.apiserver.validation.fields import Causes

_MAX_BYTES: Final = 10 * 1024
_DEVICE: Final = "kubernetes.DRADevice"
_DECLARATIONS: Final = Declarations(
    {"device": _DEVICE},
    {
        _DEVICE: {
            "driver": TEXT,
            "attributes": "map(string, map(string, any))",
            "capacity": f"map(string, map(string, {QUANTITY}))",
            "allowMultipleAllocations": BOOL,
        }
    },
)


def device_selector(path: str, selector: Tree) -> Causes:
    cel = selector.get("cel")
    if cel is None:
        yield required(f"{path}.cel")
        return
    expression = cel.get("expression", "")
    if len(expression.encode()) > _MAX_BYTES:
        yield too_long(f"{path}.cel.expression", _MAX_BYTES)
        return
    problem = _problem(expression)
    if problem:
        yield invalid_value(f"{path}.cel.expression", expression, problem)


@lru_cache(maxsize=1024)
def _problem(expression: str) -> str:
    """Return what is wrong with an expression, nothing if it compiles."""
    checked = check_expression(expression, _DECLARATIONS)
    if checked.problem or checked.type in (DYNAMIC, ANY, BOOL):
        return checked.problem
    return f"must evaluate to bool or the unknown type, not {full_name(checked.type)}"
