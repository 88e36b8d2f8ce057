"""`mooring config`: check and view KubeSchedulerConfiguration files."""

from __future__ import annotations

import click

from mooring.cli.errors import describe, exit_with
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option, registry_for
from mooring.config import ConfigError, load, load_and_resolve, to_yaml
from mooring.extender.calling.make import make_extenders
from mooring.framework.registration import RegistrationError

INVALID, UNREADABLE = 1, 2


@click.group()
def config() -> None:
    """Check and view KubeSchedulerConfiguration files."""


@config.command()
@click.argument("file", type=click.Path())
@plugin_option
def check(file: str, plugins: tuple[str, ...]) -> None:
    """Check FILE and report every problem, with line numbers.

    \b
    Exit codes:
      0  the configuration is valid
      1  the configuration is invalid
      2  FILE cannot be read
    """
    try:
        loaded, profiles = load_and_resolve(file, registry_for(plugins))
        make_extenders(loaded)
    except (ConfigError, RegistrationError) as error:
        exit_with(str(error), INVALID)
    except OSError as error:
        exit_with(describe(error, file), UNREADABLE)
    for warning in (*loaded.warnings, *(text for profile in profiles for text in profile.warnings)):
        echo(f"warning: {warning}", err=True)
    names = ", ".join(profile.scheduler_name for profile in profiles)
    count = "1 profile" if len(profiles) == 1 else f"{len(profiles)} profiles"
    echo(f"{file}: ok ({loaded.version}, {count}: {names})")


@config.command()
@click.argument("file", type=click.Path())
def view(file: str) -> None:
    """Print FILE as v1 with all defaults."""
    try:
        loaded = load(file)
    except ConfigError as error:
        exit_with(str(error), INVALID)
    except OSError as error:
        exit_with(describe(error, file), UNREADABLE)
    for warning in loaded.warnings:
        echo(f"warning: {warning}", err=True)
    echo(to_yaml(loaded.config), nl=False)
