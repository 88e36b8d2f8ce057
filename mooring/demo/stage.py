"""The stage of a demo: a cluster in virtual time, and the commands and output that a user would see."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import click
import msgspec

from mooring.api.meta import Tree
from mooring.api.times import format_time
from mooring.demo.examples import read
from mooring.demo.pace import pause
from mooring.sandbox.apiserver.printing.ages import Ages
from mooring.sandbox.cluster.applying import read_trees
from mooring.testing.sandbox_cluster import SandboxCluster

WIDTH = 100
_GROUPED = {"deployment": "deployment.apps", "job": "job.batch", "stickyjob": "stickyjob.example.com"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class StoryError(Exception):
    """A story did not come out as it should."""


def _long_name(what: str) -> str:
    """A kind as kubectl prints it: "deployment.apps/web"."""
    kind, slash, name = what.partition("/")
    return f"{_GROUPED.get(kind, kind)}{slash}{name}"


def _remembered(tree: Tree) -> Tree:
    """An object with the copy of itself that `kubectl apply` leaves in it."""
    metadata = tree.get("metadata", {})
    copy = msgspec.json.encode(tree).decode()
    annotations = {**metadata.get("annotations", {}), LAST_APPLIED: copy}
    return {**tree, "metadata": {**metadata, "annotations": annotations}}


class Stage:
    """Shows each step as the kubectl command that it is. Where the story goes on only if something holds,
    `expect` says so and looks."""

    def __init__(self, example: str, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self._example = example
        self._began = cluster.now()
        self._lines = 0  # printed since the last pause

    def say(self, text: str) -> None:
        """Print a paragraph, after a blank line."""
        self._pause()
        click.echo()
        self._print(textwrap.wrap(" ".join(text.split()), WIDTH))

    def expect(self, holds: object, what: str) -> None:
        """Check something that the story is about."""
        if not holds:
            raise StoryError(f"check failed: {what}")
        self._lines += 1
        click.echo(click.style(f"  ✓ {what}", fg="green"))

    # ---- what a person types

    def apply(self, file: str, *flags: str) -> None:
        self._type(" ".join(["kubectl apply -f", file, *flags]))
        for tree in read_trees(read(self._example, file), file):
            self._print(self.cluster.apply(_remembered(tree)))

    def scale(self, what: str, replicas: int) -> None:
        self._type(f"kubectl scale {what} --replicas={replicas}")
        self.cluster.scale(what, replicas)
        self._print([f"{_long_name(what)} scaled"])

    def label(self, node: str, key: str, value: str) -> None:
        self._type(f"kubectl label node {node} {key}={value} --overwrite")
        self.cluster.patch(f"node/{node}", {"metadata": {"labels": {key: value}}})
        self._print([f"node/{node} labeled"])

    def delete(self, what: str) -> None:
        self._type(f"kubectl delete {what.replace('/', ' ')}")
        self.cluster.delete(what)
        kind, _, name = what.partition("/")
        self._print([f'{_long_name(kind)} "{name}" deleted'])

    def cordon(self, node: str) -> None:
        self._type(f"kubectl cordon {node}")
        self.cluster.patch(f"node/{node}", {"spec": {"unschedulable": True}})
        self._print([f"node/{node} cordoned"])

    def uncordon(self, node: str) -> None:
        self._type(f"kubectl uncordon {node}")
        self.cluster.patch(f"node/{node}", {"spec": {"unschedulable": None}})
        self._print([f"node/{node} uncordoned"])

    def restart(self, what: str) -> None:
        self._type(f"kubectl rollout restart {what}")
        stamp = {"kubectl.kubernetes.io/restartedAt": format_time(self.cluster.now())}
        self.cluster.patch(what, {"spec": {"template": {"metadata": {"annotations": stamp}}}})
        self._print([f"{_long_name(what)} restarted"])

    def get(self, kind: str, *, wide: bool = False, show: Iterable[str] = ()) -> None:
        """The table that kubectl prints, or the columns of it named."""
        self._type(f"kubectl get {kind}{' -o wide' if wide else ''}")
        names = list(show)
        columns, rows = self._table(kind, wide)
        kept = [i for i, name in enumerate(columns) if not names or name in names]
        table = [[line[i] for i in kept] for line in (columns, *rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(kept))]
        self._print("   ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) for line in table)

    def describe_events(self, pod: str) -> None:
        """The end of what `kubectl describe pod` prints."""
        self._type(f"kubectl describe pod {pod}   # its events")
        self._print(
            f"{event.type}  {event.reason}  {event.note}" for event in self.cluster.events(f"pod/{pod}")
        )

    def explain(self, pod: str) -> None:
        self._type(f"mooring explain {pod}")
        self._print(self.cluster.explain(pod).splitlines())

    def pass_time(self, seconds: float) -> None:
        """Let so much of the cluster's time pass."""
        self.cluster.advance(seconds)
        click.echo(click.style(f"  … {self.cluster.now() - self._began:.1f} s after the beginning", dim=True))

    # ---- how it looks

    def _pause(self) -> None:
        if self._lines:
            pause(self._lines)
        self._lines = 0

    def _type(self, command: str) -> None:
        self._pause()
        click.echo()
        click.echo(click.style(f"$ {command}", bold=True))

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._lines += 1
            click.echo(line.rstrip())

    def _table(self, kind: str, wide: bool) -> tuple[list[str], list[list[str]]]:
        resource = self.cluster.resource(kind)
        printer = resource.printer
        ages = Ages(self.cluster.now())
        shown = [i for i, d in enumerate(printer.definitions) if wide or not d.get("priority")]
        columns = [str(printer.definitions[i]["name"]).upper() for i in shown]
        rows = [[str(printer.cells(obj, ages)[i]) for i in shown] for obj in self.cluster.list(kind)]
        return columns, rows
