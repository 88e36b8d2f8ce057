"""Configuration and plugins that are read again when their files are saved."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from mooring.cli.plugins import registry_for
from mooring.config import LoadedConfig, from_object, load
from mooring.runtime.registry import Registry
from mooring.testing.configuration import config_with

Stamp = tuple[int, int]


class Setup(NamedTuple):
    """What a scheduler is made of."""

    config: LoadedConfig
    registry: Registry


class Sources:
    """The files behind a scheduler. Without a configuration file the named plugins run at all their extension
    points, beside the default ones."""

    def __init__(self, config_file: str | None, plugins: Iterable[str], *, reload_plugins: bool) -> None:
        self._config_file = config_file
        self._plugins = tuple(plugins)
        self._reload_plugins = reload_plugins
        self._stamps: dict[Path, Stamp] = {}
        if reload_plugins:
            sys.dont_write_bytecode = (
                True  # it is known by the second: a file saved twice in one would be stale
            )

    def load(self) -> Setup:
        """Read everything for the first time. Raises ConfigError, RegistrationError or OSError."""
        try:
            return self._read()
        finally:
            self._stamps = self._look()

    def reload(self) -> Setup:
        """Read everything again; where that fails, the modules stay those that worked."""
        held: dict[str, ModuleType] = {}
        if self._reload_plugins:
            held = {name: sys.modules.pop(name) for name in list(self._modules())}
            importlib.invalidate_caches()
        try:
            return self._read()
        except BaseException:
            sys.modules.update(held)
            raise
        finally:
            self._stamps = self._look()

    def changed(self) -> list[str]:
        """The files that were saved since they were read."""
        now = self._look()
        return [str(path) for path, stamp in now.items() if self._stamps.get(path) != stamp]

    def _read(self) -> Setup:
        registry = registry_for(self._plugins)
        if self._config_file is not None:
            return Setup(load(self._config_file), registry)
        modules = (path.split(":") for path in self._plugins)
        named = [getattr(sys.modules[module], name) for module, name in modules]
        return Setup(from_object(config_with(named)), registry)

    def _look(self) -> dict[Path, Stamp]:
        found = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue  # between the two halves of a save
            found[path] = (stat.st_mtime_ns, stat.st_size)
        return found

    def _files(self) -> Iterator[Path]:
        if self._config_file is not None:
            yield Path(self._config_file)
        if self._reload_plugins:
            yield from self._modules().values()

    def _modules(self) -> dict[str, Path]:
        """The plugins' modules, and those of the same directory or package that they import."""
        files = {
            name: Path(file).resolve()
            for name, module in list(sys.modules.items())
            if (file := getattr(module, "__file__", None)) and name != "__main__"
        }
        named = {path.partition(":")[0] for path in self._plugins}
        places = {files[name].parent for name in named if name in files}
        packages = {name.partition(".")[0] for name in named}
        return {
            name: file
            for name, file in files.items()
            if file.parent in places or name.partition(".")[0] in packages
        }
