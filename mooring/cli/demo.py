"""`mooring demo`: stories that end by themselves."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import click

from mooring.demo.stage import StoryError

STORIES = {
    "tour": "A cluster comes up, a workload is scheduled live, two decisions are explained (the default).",
    "delay": "Pods that are not scheduled before their time.",
    "compose": "Two profiles side by side, one composed of default plugins with other arguments.",
    "sticky": "A custom resource whose pods come back to the node they ran on.",
    "sample": "A configuration of 2020, and a plugin that says what it is asked.",
    "extender": "An HTTP extender in Python decides where pods go.",
}


@click.command(epilog="Stories: " + " ".join(f"{name}: {line}" for name, line in STORIES.items()))
@click.argument("story", type=click.Choice(list(STORIES)), default="tour")
def demo(story: str) -> None:
    """Tell a STORY on an embedded cluster, step by step, and check what comes of it.

    Exits 1 when it does not come out as it should.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # the story tells what there is to tell
    try:
        import_module(f"mooring.demo.{story}").tell()
    except (StoryError, AssertionError) as failure:
        click.echo(f"\n{failure}", err=True)
        sys.exit(1)
