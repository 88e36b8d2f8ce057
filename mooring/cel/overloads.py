"""Functions that are chosen by the types of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.cel.cel_errors import no_such_overload
from mooring.cel.scope import Scope

Function = Callable[..., Any]


def overloads(*choices: tuple[tuple[type, ...], Function]) -> Function:
    """A library function: the first choice whose types are those of the arguments (`object` is any), charged
    with a tenth of the size of texts and the size of the list that it returns."""

    def evaluate(scope: Scope, *args: Any) -> Any:
        for types, function in choices:
            if len(types) == len(args) and all(
                t is object or type(a) is t or (t is list and isinstance(a, list))
                for t, a in zip(types, args, strict=True)
            ):
                scope.spend(1 + sum(len(arg) for arg in args if type(arg) is str) // 10)
                result = function(*args)
                if type(result) is list:  # lists can multiply: lists.range(1000).map(x, lists.range(1000))
                    scope.spend(len(result))
                return result
        raise no_such_overload()

    return evaluate
