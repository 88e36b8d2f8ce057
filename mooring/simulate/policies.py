"""A policy: a scheduler configuration and the plugins that it names."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.config import LoadedConfig, default_config, load
from mooring.config.tree import plain
from mooring.core.build import registry_with
from mooring.core.decision import Recorder
from mooring.core.scheduler import Scheduler, first_of
from mooring.framework.plugin import Plugin
from mooring.runtime.registry import Registry

TIES = ("random", "first")


class Policy(msgspec.Struct, eq=False):
    """What schedules in a run. `plugins` are classes or MODULE:CLASS paths, found in `folder`, too."""

    name: str
    config: str = ""  # a file; "" for the default configuration
    plugins: tuple[str | type[Plugin], ...] = ()
    args: Mapping[str, Mapping[str, Any]] = {}
    ties: str = "random"
    folder: Path = Path()

    def scheduler(
        self, clock: Callable[[], float], seed: int, log: Recorder | None = None, record: bool = False
    ) -> Scheduler:
        """Raises OSError, ConfigError, RegistrationError and PluginError."""
        pick, registry = self.pick(seed), self.registry()
        return Scheduler(self.load(), clock=clock, pick=pick, registry=registry, log=log, record=record)

    def pick(self, seed: int) -> Callable[[int], int]:
        """How one of equally good nodes is chosen."""
        return first_of if self.ties == "first" else random.Random(f"{seed}/ties").randrange

    def registry(self) -> Registry:
        folder = str(self.folder.resolve())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        registry = registry_with()
        registry.register_entry_points()
        for each in self.plugins:
            if isinstance(each, str):
                registry.register_path(each)
            else:
                registry.register(each)
        return registry

    def load(self) -> LoadedConfig:
        """The configuration, with `args` merged into those of the plugins."""
        if not self.config:
            loaded = LoadedConfig(default_config())
        else:
            loaded = load(self.folder / self.config)
        return with_args(loaded, self._resolved()) if self.args else loaded

    def _resolved(self) -> dict[str, dict[str, Any]]:
        """The arguments; text that begins with ./ or ../ is a path, relative to the scenario."""

        def resolve(value: Any) -> Any:
            if isinstance(value, str) and value.startswith(("./", "../")):
                return str(self.folder / value)
            return value

        return {name: {k: resolve(v) for k, v in plain(args).items()} for name, args in self.args.items()}


def with_args(loaded: LoadedConfig, args: Mapping[str, Mapping[str, Any]]) -> LoadedConfig:
    """The configuration with arguments of plugins replaced in every profile. Raises ConfigError."""
    for profile in loaded.config.profiles:
        for name, values in args.items():
            entry = next((each for each in profile.plugin_config if each.name == name), None)
            if entry is None:
                entry = type(profile.plugin_config[0])(name=name, args={}) if profile.plugin_config else None
            if entry is None:
                continue
            if isinstance(entry.args, msgspec.Struct):
                merged = {**msgspec.to_builtins(entry.args), **values}
                entry.args = msgspec.convert(merged, type(entry.args))
            else:
                entry.args = {**(entry.args or {}), **values}
            if entry not in profile.plugin_config:
                profile.plugin_config.append(entry)
    return loaded


def check_unique(names: Iterable[str]) -> str | None:
    """A name that occurs twice, if one does."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
