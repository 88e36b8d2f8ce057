"""Flags that parse as in Go programs, so that a kube-scheduler command line works unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from mooring.cli.output import echo
from mooring.config import Duration

Decorator = Callable[[Any], Any]

FILE_METAVARS = {"FILE": "file", "DIR": "dir", "MODULE:CLASS": "file"}


class Flag(click.Option):
    """An option in a section of the help; its help text ends with the default in parentheses."""

    def __init__(self, names: Sequence[str], *, default: Any = None, help: str = "", **attrs: Any) -> None:
        self.section = ""
        if default not in (None, "", False):
            help += f" (default {'true' if default is True else default})"
        super().__init__(names, default=default, help=help, **attrs)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete file names where the metavar says that the value is one."""
        kind = FILE_METAVARS.get(self.metavar or "")
        return [CompletionItem(incomplete, type=kind)] if kind else super().shell_complete(ctx, incomplete)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out the default and the range that click appends in brackets."""
        return {}


class SectionedCommand(click.Command):
    """A command whose help lists its flags by section, as Kubernetes' components do."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                section = param.section if isinstance(param, Flag) else "Global flags"
                sections.setdefault(section or "Flags", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def option(*names: str, **attrs: Any) -> Decorator:
    return click.option(*names, cls=Flag, **attrs)


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> Duration | None:
    try:
        return None if value is None else Duration.parse(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def _list(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def flag(name: str, help: str, default: bool | None = None) -> Decorator:
    """A switch that accepts `--x`, `--x=true` and `--x=false`."""
    return option(
        name,
        type=click.BOOL,
        is_flag=False,
        flag_value="true",
        default=default,
        metavar="[=true|false]",
        help=help,
    )


def duration(name: str, help: str, default: str | None = None) -> Decorator:
    """A duration in Go's notation: 15s, 1m30s, 100ms."""
    return option(name, default=default, metavar="DURATION", callback=_duration, help=help)


def comma_separated(name: str, help: str, default: str = "") -> Decorator:
    return option(name, default=default, metavar="A,B,…", callback=_list, help=help)


def text(name: str, help: str, default: str = "", metavar: str = "TEXT") -> Decorator:
    return option(name, default=default, metavar=metavar, help=help)


def group(*flags: Decorator, section: str = "") -> Decorator:
    """Combine flags into one decorator; the help lists them in this order under the section's title."""

    def decorate(command: Any) -> Any:
        before = len(getattr(command, "__click_params__", ()))
        for each in reversed(flags):
            command = each(command)
        for param in command.__click_params__[before:]:
            if isinstance(param, Flag) and not param.section:
                param.section = section
        return command

    return decorate


def kubeconfig_flags(command: Any) -> Any:
    """The flags that find a cluster as kubectl does."""
    flags = group(
        text("--kubeconfig", "Kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)", metavar="FILE"),
        text("--context", "Kubeconfig context (default: the current context)", metavar="NAME"),
    )
    return flags(command)


def log_flags(verbosity: str) -> Decorator:
    return group(
        option(
            "--logging-format",
            type=click.Choice(["text", "json"]),
            default="text",
            help="Log format",
        ),
        option(
            "-v",
            "--v",
            "v",
            type=click.IntRange(0, 10),
            default=0,
            metavar="LEVEL",
            help=verbosity,
        ),
        section="Logs flags",
    )


def without_effect(*names: str) -> Decorator:
    """Flags of kube-scheduler that do nothing in Mooring: accept them, with a warning when they are set."""
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
        echo(f"warning: {param.opts[0]} has no effect in Mooring", err=True)
