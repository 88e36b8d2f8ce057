"""Plugins on the command line: the `--plugin` option, and `mooring plugin list`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator

import click
import msgspec

from mooring.config import ConfigError, LoadedConfig, default_config, load, resolve
from mooring.core.build import registry_with
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError
from mooring.runtime.registry import Registry

plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A plugin to register, beside the default and the installed ones; may be given several times.",
)


def registry_for(paths: Iterable[str]) -> Registry:
    """The default plugins, those of installed distributions, and those named; modules in the current
    directory are found, too. Raises RegistrationError."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    registry = registry_with()
    registry.register_entry_points()
    for path in paths:
        registry.register_path(path)
    return registry


class Row(msgspec.Struct, rename="camel"):
    """A plugin as the table shows it: the extension points it implements, and for each profile that runs it
    its weight in scoring, 0 where it does not score."""

    name: str
    extension_points: list[str]
    profiles: dict[str, int]
    description: str


@click.command("list")
@click.option("--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration.")
@plugin_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def list_plugins(config_file: str | None, plugins: tuple[str, ...], output: str) -> None:
    """List plugins, their extension points, and the profiles that run them with their score weights.

    Plugins are listed in the order in which profiles run them, then those that no profile runs.
    Exit code 2: the configuration or a plugin is invalid.
    """
    try:
        rows = list(_rows(config_file, registry_for(plugins)))
    except (ConfigError, RegistrationError) as problem:
        click.echo(str(problem), err=True)
        sys.exit(2)
    except OSError as problem:
        click.echo(f"{config_file}: {problem.strerror}", err=True)
        sys.exit(2)
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
    """What a plugin's docstring begins with."""
    text = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    return text.split(". ")[0].rstrip(".")


def _print(rows: list[Row]) -> None:
    table = [("PLUGIN", "EXTENSION POINTS", "PROFILES (WEIGHT)")]
    for row in rows:
        runs = (f"{name} ({weight})" if weight else name for name, weight in row.profiles.items())
        table.append((row.name, ", ".join(row.extension_points), ", ".join(runs) or "-"))
    first, second = (max(len(line[i]) for line in table) for i in (0, 1))
    for name, points, profiles in table:
        click.echo(f"{name:<{first}}  {points:<{second}}  {profiles}")
