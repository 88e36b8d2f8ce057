"""Plugins on the command line: the `--plugin` option, and `mooring plugin list`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click
import msgspec

from mooring.cli.errors import describe, exit_with
from mooring.cli.flags import option
from mooring.cli.output import echo
from mooring.cli.setup import Setup, load_setup
from mooring.config import ConfigError, resolve
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError

INVALID = 2

plugin_option = option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Plugin to register, as MODULE:CLASS or ./FILE.py:CLASS, and to enable unless --config is set; "
    "repeatable",
)


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
        setup = load_setup(config_file, plugins)
        for warning in setup.config.warnings:
            echo(f"warning: {warning}", err=True)
        rows = list(_rows(setup))
    except (ConfigError, RegistrationError) as problem:
        exit_with(str(problem), INVALID)
    except OSError as problem:
        exit_with(describe(problem, config_file), INVALID)
    if output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    else:
        _print(rows)


def _rows(setup: Setup) -> Iterator[Row]:
    registry = setup.registry
    profiles = resolve(setup.config, registry)
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
