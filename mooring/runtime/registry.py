"""The plugins that a scheduler can be configured with, by name."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable

from mooring.framework import registration
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError, check_class, name_conflict
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside

ENTRY_POINT_GROUP = "mooring.plugins"


class Registry(dict[str, type[Plugin]]):
    """Plugin classes by name. Two different classes of one name are an error."""

    def __init__(self, classes: Iterable[type[Plugin]] = ()) -> None:
        super().__init__()
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[Plugin]) -> None:
        check_class(cls)
        registered = self.setdefault(cls.name, cls)
        if registered is not cls:
            raise name_conflict(cls, registered)

    def register_decorated(self) -> None:
        """Add the classes that the `@plugin` decorator has collected."""
        for cls in registration.decorated.values():
            self.register(cls)

    def register_entry_points(self) -> None:
        """Add the `mooring.plugins` entry points of installed distributions."""
        for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            self.register(_load(entry.load, f'entry point "{entry.name} = {entry.value}"'))

    def register_path(self, path: str) -> None:
        """Add a class by "module:Class", the form of `--plugin`."""
        module, separator, name = path.partition(":")
        if not separator or not module or not name:
            raise RegistrationError(f'--plugin {path}: expected "module:Class", e.g. my_plugins.gpu:GpuPack')

        def load() -> object:
            return getattr(importlib.import_module(module), name)

        self.register(_load(load, f"--plugin {path}"))


def _load(load: Callable[[], object], source: str) -> type[Plugin]:
    try:
        cls = load()
    except CONTAINED as exc:
        reraise_if_from_outside(exc)
        raise RegistrationError(f"{source}: {type(exc).__name__}: {exc}") from exc
    try:
        check_class(cls)
    except RegistrationError as exc:
        raise RegistrationError(f"{source}: {exc}") from exc
    return cls  # type: ignore[return-value]
