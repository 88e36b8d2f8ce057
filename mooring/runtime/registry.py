"""The plugins that a scheduler can be configured with, by name."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from mooring.framework import registration
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError, check_class, name_conflict
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside, text_of
from mooring.runtime.source_modules import is_file, load_module, search_path

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

    def register_path(self, path: str) -> type[Plugin]:
        """Add and return a class by "module:Class" or "./file.py:Class", the forms of `--plugin`."""
        source, separator, name = path.rpartition(":")
        if not separator or not source or not name:
            raise RegistrationError(
                f'--plugin {path}: expected "module:Class", e.g. my_plugins.gpu:GpuPack or ./gpu.py:GpuPack'
            )
        cls = _load(lambda: _find_class(source, name), f"--plugin {path}")
        self.register(cls)
        return cls


def _load(load: Callable[[], object], source: str) -> type[Plugin]:
    try:
        cls = load()
        check_class(cls)
    except RegistrationError as exc:
        raise RegistrationError(f"{source}: {exc}") from exc
    except CONTAINED as exc:
        reraise_if_from_outside(exc)
        raise RegistrationError(f"{source}: {text_of(exc)}") from exc
    return cls  # type: ignore[return-value]


def _find_class(source: str, name: str) -> object:
    """Return the attribute `name` of a module; the error says where it was searched."""
    try:
        module = load_module(source)
    except FileNotFoundError as exc:
        if not is_file(source) or exc.filename != str(Path(source).resolve()):
            raise
        raise RegistrationError(f"no such file: {exc.filename}{_hint_near(Path(source))}") from None
    except ModuleNotFoundError as exc:
        if is_file(source) or not f"{source}.".startswith(f"{exc.name}."):
            raise  # another module, which this one imports
        where = ", ".join(search_path())
        raise RegistrationError(
            f'no module named "{exc.name}" in {where}{_hint_near(Path(f"{source}.py"))}'
        ) from None
    try:
        return getattr(module, name)
    except AttributeError:
        names = _plugin_names(module)
        classes = f"its plugin classes: {', '.join(names)}" if names else "it has no plugin class"
        text = f'no class "{name}" in {module.__file__}; {classes}'
        raise RegistrationError(text + _hint(name, names)) from None


def _plugin_names(module: ModuleType) -> list[str]:
    """Return the names of the plugin classes that a module defines or imports."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Plugin) and value.extension_points
    ]


def _hint_near(file: Path) -> str:
    """Return a hint that names a similar file in the directory, if there is one."""
    folder = file.parent
    similar = sorted(path.stem for path in folder.glob("*.py")) if folder.is_dir() else []
    return _hint(file.stem, similar)


def _hint(name: str, candidates: Iterable[str]) -> str:
    close = get_close_matches(name, candidates, n=1)
    return f'\nhint: did you mean "{close[0]}"?' if close else ""
