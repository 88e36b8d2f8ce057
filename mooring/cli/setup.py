"""Configuration and plugins of a scheduler, from the command line's --config and --plugin."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from mooring.config import LoadedConfig, PluginConfig, default_config, from_object, load, resolve
from mooring.config.enabling import config_with
from mooring.core.build import registry_with
from mooring.framework.plugin import Plugin
from mooring.plugins.args import IN_TREE_ARGS
from mooring.runtime.registry import Registry


class Setup(NamedTuple):
    """Configuration and plugins of a scheduler."""

    config: LoadedConfig
    registry: Registry


def load_setup(config_file: str | None, paths: Iterable[str]) -> Setup:
    """Load the configuration and the plugins at `paths`.

    Without a configuration file, these plugins run at all their extension points, in addition to the default
    plugins. With one, it decides; a plugin that none of its profiles enables is a warning.

    Raises ConfigError, RegistrationError or OSError.
    """
    registry, named = registry_for(paths)
    if config_file is None:
        return Setup(from_object(config_with(named)) if named else LoadedConfig(default_config()), registry)
    config = load(config_file)
    if named:
        enabled = {name for profile in resolve(config, registry) for name in profile.args}
        config.warnings += not_enabled(named, enabled, config_file)
    return Setup(config, registry)


def not_enabled(plugins: Iterable[type[Plugin]], enabled: set[str], config_file: str) -> list[str]:
    """Return a warning for each plugin that no profile enables."""
    return [
        f"{config_file}: no profile enables plugin {cls.name}, so it does not run\n"
        f"hint: add {cls.name} to profiles[].plugins.multiPoint.enabled"
        for cls in plugins
        if cls.name not in enabled
    ]


def show_args(setup: Setup) -> None:
    """Write the arguments of plugins other than the default ones into the configuration, with defaults."""
    profiles = setup.config.config.profiles
    for profile, resolved in zip(profiles, resolve(setup.config, setup.registry), strict=True):
        entries = {entry.name: entry for entry in profile.plugin_config}
        for name, args in resolved.args.items():
            if args is None or name in IN_TREE_ARGS:
                continue
            if name not in entries:
                entries[name] = PluginConfig(name=name)
                profile.plugin_config.append(entries[name])
            entries[name].args = msgspec.to_builtins(args, enc_hook=str)


def registry_for(paths: Iterable[str]) -> tuple[Registry, list[type[Plugin]]]:
    """Return the registry of the default plugins, the installed ones and those at `paths`, and the latter.

    Modules are also searched in the current directory. Raises RegistrationError.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    registry = registry_with()
    registry.register_entry_points()
    return registry, [registry.register_path(path) for path in paths]
