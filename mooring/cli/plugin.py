"""`mooring plugin`: create and list scheduler plugins."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import click

from mooring import __version__
from mooring.cli.errors import describe
from mooring.cli.flags import option
from mooring.cli.groups import Group
from mooring.cli.plugin_files import package_files, plugin_files
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
@option(
    "--package",
    is_flag=True,
    help="Create a Python package with an entry point, a Dockerfile and manifests to deploy it",
)
def new(name: str, directory: str | None, package: bool) -> None:
    """Create a plugin called NAME, with a test, a configuration and sample manifests.

    NAME can be written as gpu-pack, gpu_pack or GpuPack. Existing files are not overwritten.
    """
    words = [word.lower() for word in WORDS.findall(name)]
    if not FORM.fullmatch(name) or keyword.iskeyword("_".join(words)):
        raise click.UsageError(
            f'plugin name "{name}" is invalid\nhint: use letters, digits and dashes, such as gpu-pack'
        )
    names = {
        "class": "".join(word.capitalize() for word in words),
        "module": "_".join(words),
        "project": "-".join(words),
        "version": __version__,
    }
    place = Path(names["project"] if directory is None else directory)
    texts = package_files(names) if package else plugin_files(names)
    existing = [file for file in texts if (place / file).exists()]
    if existing:
        raise click.UsageError(f"{place / existing[0]}: already exists\nhint: choose another --directory")
    try:
        for file, text in texts.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_text(text)
    except OSError as problem:
        raise click.UsageError(describe(problem)) from None
    click.echo(_package_steps(place, names) if package else _next_steps(place, names, list(texts)))


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


def _package_steps(place: Path, names: dict[str, str]) -> str:
    plugin = f"{names['module']}:{names['class']}"  # the entry point does without; --reload needs it
    return f"""\
Wrote the package {names["project"]} in {place}; README.md describes its files.

  cd {place}
  pip install -e '.[test]'    # registers the plugin by its entry point
  python -m pytest
  mooring up --nodes-file nodes.yaml --config scheduler.yaml --plugin {plugin} --reload

To run it in a cluster:

  docker build -t {names["project"]}:0.1.0 .
  kubectl apply -k deploy"""
