"""Plugins named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from mooring.core.build import registry_with
from mooring.framework.registry import Registry

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
