"""The `@plugin` decorator, and the checks that every plugin class passes before it is used."""

from __future__ import annotations

import inspect
import weakref
from typing import TypeVar

from mooring.framework.plugin import Plugin, overrides

P = TypeVar("P", bound=type[Plugin])

decorated: dict[str, type[Plugin]] = {}
"""The classes that `@plugin` has collected in this process, by plugin name."""


class RegistrationError(ValueError):
    """A plugin class cannot be registered; the message says how to fix it."""


def plugin(cls: P) -> P:
    """Class decorator: register a plugin with every scheduler of this process."""
    check_class(cls)
    previous = decorated.get(cls.name)
    # A module that is loaded again defines its classes again.
    if previous is not None and _identity(previous) != _identity(cls):
        raise name_conflict(cls, previous)
    decorated[cls.name] = cls
    return cls


def check_class(cls: object) -> None:
    """Reject a class that is not a usable plugin, before it can fail during scheduling."""
    if not (inspect.isclass(cls) and issubclass(cls, Plugin)):
        raise RegistrationError(f"{cls!r} is not a plugin: expected a subclass of mooring.framework.Plugin")
    if cls in _checked:
        return
    where = f"{cls.__module__}.{cls.__qualname__}"
    if not isinstance(getattr(cls, "name", None), str) or not cls.name:
        raise RegistrationError(f'{where}: a plugin needs a name, e.g. name = "{cls.__name__}"')
    if not cls.extension_points:
        raise RegistrationError(f"{where}: implements no extension point; override filter, score or another")
    for method in _METHODS:
        if overrides(cls, method):
            _check_signature(cls, method, where)
    _checked.add(cls)


def name_conflict(cls: type[Plugin], other: type[Plugin]) -> RegistrationError:
    """Two different classes have one name."""
    return RegistrationError(
        f'two plugins are named "{cls.name}": {other.__module__}.{other.__qualname__} '
        f"and {cls.__module__}.{cls.__qualname__}; give one of them another name"
    )


_METHODS = [name for name, value in vars(Plugin).items() if inspect.isfunction(value) and name[0] != "_"]
_MAY_BE_ASYNC = ("pre_bind", "bind", "post_bind")
_checked: weakref.WeakSet[type[Plugin]] = weakref.WeakSet()


def _identity(cls: type[Plugin]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def _check_signature(cls: type[Plugin], method: str, where: str) -> None:
    if method not in _MAY_BE_ASYNC and inspect.iscoroutinefunction(getattr(cls, method)):
        names = ", ".join(_MAY_BE_ASYNC)
        raise RegistrationError(f"{where}.{method}: expected a plain function; only {names} may be async")
    parameters = list(inspect.signature(getattr(Plugin, method)).parameters)
    signature = inspect.signature(getattr(cls, method))
    try:
        signature.bind(*parameters)
    except TypeError:
        expected = ", ".join(parameters)
        raise RegistrationError(f"{where}.{method}{signature}: expected {method}({expected})") from None
