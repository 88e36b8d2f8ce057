"""`mooring completion`: shell completion scripts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

NAME, VARIABLE = "mooring", "_MOORING_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell completion script for commands, options, values and files.

    \b
    For this session:
      bash    source <(mooring completion bash)
      zsh     source <(mooring completion zsh)
      fish    mooring completion fish | source

    \b
    For all sessions:
      bash    mooring completion bash > ~/.local/share/bash-completion/completions/mooring
      zsh     mooring completion zsh > "${fpath[1]}/_mooring"
      fish    mooring completion fish > ~/.config/fish/completions/mooring.fish

    bash needs to be version 4.4 or newer. `mooring` must be on the PATH.
    """
    cls = get_completion_class(shell)
    if cls is None:
        raise AssertionError(f"click completes in {shell}")
    click.echo(cls(click.Command(NAME), {}, NAME, VARIABLE).source())
