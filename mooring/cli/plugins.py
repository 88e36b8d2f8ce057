"""Plugins on the command line: the `--plugin` option, and `mooring plugin list`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator

import click
import msgspec

from mooring.cli.errors import describe, exit_with
from mooring.cli.flags import option
from mooring.cli.output import echo
from mooring.config import ConfigError, LoadedConfig, default_config, load, resolve
from mooring.core.build import registry_with
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError
from mooring.runtime.registry import Registry

INVALID = 2

plugin_option = option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Plugin to register, in addition to the default and installed ones; repeatable",
)


def registry_for(paths: Iterable[str]) -> Registry:
    """Return the registry of the default plugins, the installed ones and those at `paths`.

    Modules are also searched in the current directory. Raises RegistrationError.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    registry = registry_with()
    registry.register_entry_points()
    for path in paths:
        registry.register_path(path)
    return registry


class Row(msgspec.Struct, rename="camel"):
    """A plugin in the table: its extension points, and its score weight in each profile that enables it, 0 if
    it does not score."""

    name: str
    extension_points: list[str]
    profiles: dict[str, int]
    description: str


@click.command("list")
@option("--config", "config_file", metavar="FILE", help="KubeSchedulerConfiguration file")
@plugin_option
@option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format")
def list_plugins(config_file: str | None, plugins: tuple[str, ...], output: str) -> None:
    """List the available plugins, their extension points, and the profiles that enable them.

    Profiles are shown with the plugin's score weight. Enabled plugins come first, in the order in which they
    run.

    Exits 2 if the configuration or a plugin is invalid.
    """
    try:
        rows = list(_rows(config_file, registry_for(plugins)))
    except (ConfigError, RegistrationError) as problem:
        exit_with(str(problem), INVALID)
    except OSError as problem:
        exit_with(describe(problem, config_file), INVALID)
    if output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    else:
        _print(rows)


def _rows(config_file: str | None, registry: Registry) -> Iterator[Row]:
    config = LoadedConfig(default_config()) if config_file is None else load(config_file)
    profiles = resolve(config, registry)
    order = {name: None for profile in profiles for name in profile.args}
    for name in (*order, *sorted(registry.keys() - order)):
        cls = registry[name]
        runs = {p.scheduler_name: p.weights.get(name, 0) for p in profiles if name in p.args}
        yield Row(name, [p for p in EXTENSION_POINTS if p in cls.extension_points], runs, _sentence(cls))


def _sentence(cls: type[Plugin]) -> str:
    """Return the first sentence of a plugin's docstring."""
    text = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    return text.split(". ")[0].rstrip(".")


def _print(rows: list[Row]) -> None:
    table = [("PLUGIN", "EXTENSION POINTS", "PROFILES (WEIGHT)")]
    for row in rows:
        runs = (f"{name} ({weight})" if weight else name for name, weight in row.profiles.items())
        table.append((row.name, ", ".join(row.extension_points), ", ".join(runs) or "-"))
    first, second = (max(len(line[i]) for line in table) for i in (0, 1))
    for name, points, profiles in table:
        echo(f"{name:<{first}}  {points:<{second}}  {profiles}")
