"""Groups of commands."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import CompletionItem


class Group(click.Group):
    """A group that suggests a command for a mistyped one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, names = args[0], self.list_commands(ctx)
        if name in names or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        close = get_close_matches(name, names, n=1)
        hint = f'did you mean "{close[0]}"?' if close else f"the commands are {', '.join(names)}"
        raise click.UsageError(f'unknown command "{name}"\nhint: {hint}', ctx)


class LazyGroup(Group):
    """A group that imports a command only when it is used, to keep every command fast to start.

    `lines` has the line of each command in the help; `mooring.cli.<name>.<name>` is the command.
    """

    lines: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.lines:
            return None
        command: click.Command = getattr(import_module(f"mooring.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names without importing the commands, which takes longer than a user waits."""
        names = {name: line for name, line in self.lines.items() if name.startswith(incomplete)}
        items = [CompletionItem(name, help=line) for name, line in names.items()]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]
