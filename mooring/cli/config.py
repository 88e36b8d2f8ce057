"""`mooring config`: check and view KubeSchedulerConfiguration files."""

from __future__ import annotations

import click

from mooring.api.counts import count
from mooring.cli.errors import describe, exit_with
from mooring.cli.groups import Group
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.setup import load_setup, not_enabled, registry_for, show_args
from mooring.config import ConfigError, load_and_resolve, to_yaml
from mooring.extender.calling.make import make_extenders
from mooring.framework.registration import RegistrationError

INVALID, UNREADABLE = 1, 2


@click.group(cls=Group)
def config() -> None:
    """Check and view KubeSchedulerConfiguration files."""


@config.command()
@click.argument("file", type=click.Path())
@plugin_option
def check(file: str, plugins: tuple[str, ...]) -> None:
    """Check FILE and report every problem, with line numbers.

    Plugins of --plugin are checked even if no profile enables them: a warning says so, and their args are
    validated.

    \b
    Exit codes:
      0  the configuration is valid
      1  the configuration is invalid
      2  FILE cannot be read
    """
    try:
        registry, classes = registry_for(plugins)
        loaded, profiles = load_and_resolve(file, registry)
        make_extenders(loaded)
    except (ConfigError, RegistrationError) as error:
        exit_with(str(error), INVALID)
    except OSError as error:
        exit_with(describe(error, file), UNREADABLE)
    enabled = {name for profile in profiles for name in profile.args}
    warnings = [text for profile in profiles for text in profile.warnings]
    for warning in (*loaded.warnings, *warnings, *not_enabled(classes, enabled, file)):
        echo(f"warning: {warning}", err=True)
    names = ", ".join(profile.scheduler_name for profile in profiles)
    echo(f"{file}: ok ({loaded.version}, {count(len(profiles), 'profile')}: {names})")


@config.command()
@click.argument("file", type=click.Path(), required=False)
@plugin_option
def view(file: str | None, plugins: tuple[str, ...]) -> None:
    """Print FILE as v1 with all defaults, or the default configuration without FILE.

    With --plugin, the args of these plugins are printed with their defaults, too; without FILE, the plugins
    are enabled.

    \b
    Exit codes:
      0  the configuration is valid
      1  the configuration is invalid
      2  FILE cannot be read
    """
    try:
        setup = load_setup(file, plugins)
        if plugins:
            show_args(setup)
        text = to_yaml(setup.config.config)
    except (ConfigError, RegistrationError) as error:
        exit_with(str(error), INVALID)
    except OSError as error:
        exit_with(describe(error, file), UNREADABLE)
    for warning in setup.config.warnings:
        echo(f"warning: {warning}", err=True)
    echo(text, nl=False)
