"""`mooring plugin`: create and list scheduler plugins."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from mooring.cli.plugins import list_plugins

FORM = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_ ][A-Za-z0-9]+)*")
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


@click.group()
def plugin() -> None:
    """Create and list scheduler plugins."""


plugin.add_command(list_plugins)


@plugin.command()
@click.argument("name")
@click.option("--directory", metavar="DIR", help="Where to write it (default: a new directory of that name).")
def new(name: str, directory: str | None) -> None:
    """Write a plugin called NAME, a test of it, and a configuration that run as they are.

    NAME is written as you like: gpu-pack, gpu_pack or GpuPack. Nothing that is there already is overwritten.
    """
    words = [word.lower() for word in WORDS.findall(name)]
    if not FORM.fullmatch(name) or keyword.iskeyword("_".join(words)):
        raise click.UsageError(f'"{name}": expected letters, digits and dashes, such as gpu-pack')
    names = {"class": "".join(word.capitalize() for word in words), "module": "_".join(words)}
    place = Path("-".join(words) if directory is None else directory)
    written = _texts(names)
    there = [file for file in written if (place / file).exists()]
    if there:
        raise click.UsageError(f"{place / there[0]} exists already; name another --directory")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file, text in written.items():
            (place / file).write_text(text)
    except OSError as problem:
        raise click.UsageError(f"{problem.filename}: {problem.strerror}") from None
    click.echo(_next_steps(place, names, list(written)))


def _texts(names: dict[str, str]) -> dict[str, str]:
    """The files of a new plugin: their names, and what is in them."""
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
