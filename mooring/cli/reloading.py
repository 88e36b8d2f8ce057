"""Reload configuration and plugins when their files change."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from mooring.cli.setup import Setup, load_setup
from mooring.runtime.source_modules import is_file

Stamp = tuple[int, int]


class Sources:
    """Source files of a scheduler's configuration and plugins."""

    def __init__(
        self,
        config_file: str | None,
        plugins: Iterable[str],
        *,
        reload_plugins: bool,
        feature_gates: Mapping[str, bool] | None = None,
    ) -> None:
        self._config_file = config_file
        self._plugins = tuple(plugins)
        self._reload_plugins = reload_plugins
        self._feature_gates = feature_gates or {}
        self._stamps: dict[Path, Stamp] = {}
        if reload_plugins:
            # Bytecode is matched by modification time in seconds: after two saves within one it is stale.
            sys.dont_write_bytecode = True

    def load(self) -> Setup:
        """Load everything for the first time. Raises ConfigError, RegistrationError or OSError."""
        try:
            return self._load()
        finally:
            self._stamps = self._look()

    def reload(self) -> Setup:
        """Load everything again; on failure, keep the modules of the last successful load."""
        held: dict[str, ModuleType] = {}
        if self._reload_plugins:
            held = {name: sys.modules.pop(name) for name in list(self._modules())}
            importlib.invalidate_caches()
        try:
            return self._load()
        except BaseException:
            sys.modules.update(held)
            raise
        finally:
            self._stamps = self._look()

    def _load(self) -> Setup:
        """Load everything; the feature gates of the command line override those of the file."""
        setup = load_setup(self._config_file, self._plugins)
        setup.config.config.feature_gates |= self._feature_gates
        return setup

    def changed(self) -> list[str]:
        """Return the files that changed since they were loaded."""
        now = self._look()
        return [str(path) for path, stamp in now.items() if self._stamps.get(path) != stamp]

    def _look(self) -> dict[Path, Stamp]:
        stamps = {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue  # the editor is replacing the file
            stamps[path] = (stat.st_mtime_ns, stat.st_size)
        return stamps

    def _files(self) -> Iterator[Path]:
        if self._config_file is not None:
            yield Path(self._config_file)
        if self._reload_plugins:
            yield from self._modules().values()

    def _modules(self) -> dict[str, Path]:
        """Return the plugins' modules, and the modules they import from the same directory or package."""
        files = {
            name: Path(file).resolve()
            for name, module in list(sys.modules.items())
            if (file := getattr(module, "__file__", None)) and name != "__main__"
        }
        sources = {path.rpartition(":")[0] for path in self._plugins}
        names = {source for source in sources if not is_file(source)}
        places = {files[name].parent for name in names if name in files}
        places |= {Path(source).resolve().parent for source in sources - names}
        packages = {name.partition(".")[0] for name in names}
        return {
            name: file
            for name, file in files.items()
            if file.parent in places or name.partition(".")[0] in packages
        }
