"""Flags as Go programs take them, so that a kube-scheduler command line works as it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mooring.config import Duration

Decorator = Callable[[Any], Any]


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> Duration | None:
    try:
        return None if value is None else Duration.parse(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def _list(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def flag(name: str, help: str, default: bool | None = None) -> Decorator:
    """A switch that takes `--x`, `--x=true` and `--x=false`."""
    return click.option(
        name,
        type=click.BOOL,
        is_flag=False,
        flag_value="true",
        default=default,
        metavar="[=true|false]",
        help=help,
    )


def duration(name: str, help: str, default: str | None = None) -> Decorator:
    """A span of time: 15s, 1m30s, 100ms."""
    return click.option(name, default=default, metavar="DURATION", callback=_duration, help=help)


def comma_separated(name: str, help: str, default: str = "") -> Decorator:
    return click.option(name, default=default, metavar="A,B,…", callback=_list, help=help)


def text(name: str, help: str, default: str = "", metavar: str = "TEXT") -> Decorator:
    return click.option(name, default=default, metavar=metavar, help=help)


def group(*flags: Decorator) -> Decorator:
    """Several flags as one decorator, listed in this order."""

    def decorate(command: Any) -> Any:
        for each in reversed(flags):
            command = each(command)
        return command

    return decorate


def without_effect(*names: str) -> Decorator:
    """Flags of kube-scheduler that mean nothing here: taken, and said to be without effect when given."""
    return group(
        *(
            click.option(
                name,
                is_flag=False,
                flag_value="",
                default=None,
                hidden=True,
                expose_value=False,
                callback=_warn,
            )
            for name in names
        )
    )


def _warn(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(f"warning: {param.opts[0]} has no effect in Mooring", err=True)
