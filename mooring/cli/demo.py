"""`mooring demo`: guided demos that run on a sandbox cluster and check their own outcome."""

from __future__ import annotations

import logging
from importlib import import_module

import click

from mooring.cli.errors import exit_with
from mooring.demo.stage import StoryError

STORIES = {
    "tour": "Start a cluster, schedule a workload live and explain two decisions (default)",
    "delay": "Delayed scheduling: pods that are not scheduled before a given time",
    "compose": "Two profiles side by side, one composed of default plugins with other arguments",
    "sticky": "A custom resource whose pods return to the node they ran on",
    "sample": "A v1alpha1 configuration and a plugin that logs its calls",
    "gpu-claims": "GPUs by resource claims: allocated, explained when they run out, and freed",
    "gang": "Gangs: two jobs of five pods and room for one; each starts whole or not at all",
    "extender": "An HTTP extender in Python that decides where pods go",
}
FAILED = 1


class DemoCommand(click.Command):
    """A command whose help lists the demos."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Demos"):
            formatter.write_dl(list(STORIES.items()))


@click.command(cls=DemoCommand)
@click.argument("story", type=click.Choice(list(STORIES)), default="tour", metavar="[DEMO]")
def demo(story: str) -> None:
    """Run a guided demo on a sandbox cluster, step by step.

    On a terminal it pauses between steps; any key continues at once. Exits 1 if the outcome is not the
    expected one.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # the demo prints what matters
    try:
        import_module(f"mooring.demo.{story.replace('-', '_')}_story").play()
    except (StoryError, AssertionError) as failure:
        exit_with(f"\n{failure}", FAILED)
