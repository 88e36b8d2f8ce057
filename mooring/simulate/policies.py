"""A policy: a scheduler configuration and the plugins that it names."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.config import LoadedConfig, PluginConfig, default_config, from_object, load
from mooring.config.enabling import config_with
from mooring.config.tree import plain
from mooring.config.types import PluginRef
from mooring.core.build import registry_with
from mooring.core.decision import Recorder
from mooring.core.scheduler import Scheduler, first_of
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError
from mooring.runtime.registry import Registry

TIES = ("random", "first", "recorded")
COMPAT_ARGS = {
    "GangScheduling": {
        "evictForUnschedulableGroups": True,
        "groupPreemption": "KubeScheduler",
        "groupRetry": "Backoff",
        "planningSteps": 0,
        "preserveGangs": False,
    }
}
"""How kube-scheduler v1.36 treats groups: retried by time, with its own choice of victims."""


class Policy(msgspec.Struct, eq=False):
    """What schedules in a run. `plugins` are classes, or MODULE:CLASS or ./FILE.py:CLASS, found in `folder`.

    Plugins run at all their extension points, unless the configuration mentions them.
    """

    name: str
    config: str = ""  # a file; "" for the default configuration
    plugins: tuple[str | type[Plugin], ...] = ()
    args: Mapping[str, Mapping[str, Any]] = {}
    ties: str = "random"
    folder: Path = Path()
    compat: bool = False  # treat groups as kube-scheduler does

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
        return self._register()[0]

    def _register(self) -> tuple[Registry, list[type[Plugin]]]:
        """The plugins there are, and the policy's own among them."""
        folder = str(self.folder.resolve())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        registry = registry_with()
        registry.register_entry_points()
        own: list[type[Plugin]] = []
        for each in self.plugins:
            if isinstance(each, str):
                own.append(_registered(registry, self._resolve(each)))
            else:
                registry.register(each)
                own.append(each)
        return registry, own

    def load(self) -> LoadedConfig:
        """The configuration with the policy's plugins, and `args` merged into those of the plugins."""
        _, own = self._register()
        if self.config:
            loaded = load(self.folder / self.config)
            enable(own, loaded)
        else:
            loaded = from_object(config_with(own)) if own else LoadedConfig(default_config())
        if self.compat:
            with_args(loaded, COMPAT_ARGS)
        return with_args(loaded, self._resolved()) if self.args else loaded

    def _resolved(self) -> dict[str, dict[str, Any]]:
        """The arguments, with paths relative to the scenario."""
        return {
            name: {k: self._resolve(v) for k, v in plain(args).items()} for name, args in self.args.items()
        }

    def _resolve(self, value: Any) -> Any:
        """Text that begins with ./ or ../ is a path, relative to the scenario."""
        if isinstance(value, str) and value.startswith(("./", "../")):
            return str(self.folder / value)
        return value


def _registered(registry: Registry, path: str) -> type[Plugin]:
    try:
        return registry.register_path(path)
    except RegistrationError as error:
        raise RegistrationError(str(error).replace("--plugin ", "plugins: ", 1)) from None


def enable(plugins: Iterable[type[Plugin]], loaded: LoadedConfig) -> None:
    """Enable, in every profile, the plugins that no profile mentions."""
    profiles = loaded.config.profiles
    mentioned = {
        plugin.name
        for profile in profiles
        for point in profile.plugins.__struct_fields__
        for plugin in (*getattr(profile.plugins, point).enabled, *getattr(profile.plugins, point).disabled)
    }
    for cls in plugins:
        if cls.name not in mentioned:
            for profile in profiles:
                profile.plugins.multi_point.enabled.append(PluginRef(name=cls.name))


def with_args(loaded: LoadedConfig, args: Mapping[str, Mapping[str, Any]]) -> LoadedConfig:
    """The configuration with arguments of plugins replaced in every profile. Raises ConfigError."""
    for profile in loaded.config.profiles:
        for name, values in args.items():
            entry = next((each for each in profile.plugin_config if each.name == name), None)
            if entry is None:
                entry = PluginConfig(name=name, args={})
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
