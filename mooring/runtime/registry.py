"""The plugins that a scheduler can be configured with, by name."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import weakref
from collections.abc import Iterable
from typing import TypeVar

from mooring.framework.plugin import Plugin, overrides

P = TypeVar("P", bound=type[Plugin])

ENTRY_POINT_GROUP = "mooring.plugins"
_decorated: dict[str, type[Plugin]] = {}


class RegistrationError(ValueError):
    """A plugin class that cannot be registered; the message says what would be right."""


def plugin(cls: P) -> P:
    """Class decorator: make a plugin known to every scheduler of this process."""
    check_class(cls)
    known = _decorated.get(cls.name)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise RegistrationError(_twice(cls, known))
    _decorated[cls.name] = cls
    return cls


class Registry(dict[str, type[Plugin]]):
    """Plugin classes by name. Two different classes of one name are an error."""

    def __init__(self, classes: Iterable[type[Plugin]] = ()) -> None:
        super().__init__()
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[Plugin]) -> None:
        check_class(cls)
        known = self.get(cls.name)
        if known is not None and known is not cls:
            raise RegistrationError(_twice(cls, known))
        self[cls.name] = cls

    def register_decorated(self) -> None:
        """Add what the `@plugin` decorator has collected."""
        for cls in _decorated.values():
            self.register(cls)

    def register_entry_points(self) -> None:
        """Add what installed distributions offer under the `mooring.plugins` entry point."""
        for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            self.register(_loaded(entry.load, f'entry point "{entry.name} = {entry.value}"'))

    def register_path(self, path: str) -> None:
        """Add a class by "module:Class", as `--plugin` gives it."""
        module, separator, name = path.partition(":")
        if not separator or not module or not name:
            raise RegistrationError(f'--plugin {path}: expected "module:Class", e.g. my_plugins.gpu:GpuPack')

        def load() -> object:
            found: object = getattr(importlib.import_module(module), name)
            return found

        self.register(_loaded(load, f"--plugin {path}"))


def check_class(cls: object) -> None:
    """Complain about a class that is no plugin, before it can fail in the middle of scheduling."""
    if not (inspect.isclass(cls) and issubclass(cls, Plugin)):
        raise RegistrationError(f"{cls!r} is not a plugin: expected a subclass of mooring.framework.Plugin")
    if cls in _fine:
        return
    where = f"{cls.__module__}.{cls.__qualname__}"
    if not isinstance(getattr(cls, "name", None), str) or not cls.name:
        raise RegistrationError(f'{where}: a plugin needs a name, e.g. name = "{cls.__name__}"')
    if not cls.extension_points:
        raise RegistrationError(f"{where}: implements no extension point; override filter, score or another")
    for method in _METHODS:
        if overrides(cls, method):
            _check_signature(cls, method, where)
    _fine.add(cls)


_METHODS = [name for name, value in vars(Plugin).items() if inspect.isfunction(value) and name[0] != "_"]
_MAY_WAIT = ("pre_bind", "bind", "post_bind")
_fine: weakref.WeakSet[type[Plugin]] = weakref.WeakSet()


def _check_signature(cls: type[Plugin], method: str, where: str) -> None:
    if method not in _MAY_WAIT and inspect.iscoroutinefunction(getattr(cls, method)):
        may = ", ".join(_MAY_WAIT)
        raise RegistrationError(f"{where}.{method}: expected a plain function; only {may} may be async")
    expected = list(inspect.signature(getattr(Plugin, method)).parameters)
    signature = inspect.signature(getattr(cls, method))
    try:
        signature.bind(*expected)
    except TypeError:
        wanted = ", ".join(expected)
        raise RegistrationError(f"{where}.{method}{signature}: expected {method}({wanted})") from None


def _loaded(load: object, source: str) -> type[Plugin]:
    try:
        found = load()  # type: ignore[operator]
    except Exception as exc:
        raise RegistrationError(f"{source}: {type(exc).__name__}: {exc}") from exc
    try:
        check_class(found)
    except RegistrationError as exc:
        raise RegistrationError(f"{source}: {exc}") from exc
    return found  # type: ignore[no-any-return]


def _twice(cls: type[Plugin], known: type[Plugin]) -> str:
    return (
        f'two plugins are named "{cls.name}": {known.__module__}.{known.__qualname__} '
        f"and {cls.__module__}.{cls.__qualname__}; give one of them another name"
    )
