"""`mooring plugin`: create and list scheduler plugins."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from mooring.cli.errors import describe
from mooring.cli.flags import option
from mooring.cli.groups import Group
from mooring.cli.plugins import list_plugins

FORM = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_ ][A-Za-z0-9]+)*")
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


@click.group(cls=Group)
def plugin() -> None:
    """Create and list scheduler plugins."""


plugin.add_command(list_plugins)


@plugin.command()
@click.argument("name")
@option(
    "--directory", metavar="DIR", help="Target directory (default: a new directory named after the plugin)"
)
def new(name: str, directory: str | None) -> None:
    """Create a plugin called NAME, with a test, a configuration and sample manifests.

    NAME can be written as gpu-pack, gpu_pack or GpuPack. Existing files are not overwritten.
    """
    words = [word.lower() for word in WORDS.findall(name)]
    if not FORM.fullmatch(name) or keyword.iskeyword("_".join(words)):
        raise click.UsageError(
            f'plugin name "{name}" is invalid\nhint: use letters, digits and dashes, such as gpu-pack'
        )
    names = {"class": "".join(word.capitalize() for word in words), "module": "_".join(words)}
    place = Path("-".join(words) if directory is None else directory)
    written = _texts(names)
    existing = [file for file in written if (place / file).exists()]
    if existing:
        raise click.UsageError(f"{place / existing[0]}: already exists\nhint: choose another --directory")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file, text in written.items():
            (place / file).write_text(text)
    except OSError as problem:
        raise click.UsageError(describe(problem)) from None
    click.echo(_next_steps(place, names, list(written)))


def _texts(names: dict[str, str]) -> dict[str, str]:
    """Return the contents of the files of a new plugin, by name."""
    module = names["module"]
    targets = {
        "plugin.py": f"{module}.py",
        "test_plugin.py": f"test_{module}.py",
        "scheduler.yaml": "scheduler.yaml",
        "nodes.yaml": "nodes.yaml",
        "pod.yaml": "pod.yaml",
    }
    templates = files("mooring.cli.new_plugin")
    return {
        target: Template((templates / f"{source}.txt").read_text()).substitute(names)
        for source, target in targets.items()
    }


def _next_steps(place: Path, names: dict[str, str], written: list[str]) -> str:
    plugin = f"{names['module']}:{names['class']}"
    return f"""\
Wrote {", ".join(written)} in {place}.

  cd {place}
  python -m pytest            # needs: pip install pytest
  mooring up --nodes-file nodes.yaml --config scheduler.yaml --plugin {plugin} --reload

Then, in another terminal, with the KUBECONFIG it prints:

  kubectl apply -f pod.yaml
  kubectl get pods -o wide"""
