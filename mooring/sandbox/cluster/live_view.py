"""What `mooring up` shows while it runs: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.api.counts import count
from mooring.api.objects import Node, Pod
from mooring.api.printable import printable
from mooring.client.cache import Collection
from mooring.core.decision import Decision
from mooring.explain.text import why
from mooring.sandbox.cluster.stages import BOUND, CHOSEN, FAILED, PENDING, WAITING, Stage, stage_of

LATEST = 12  # decisions on the screen
PERIOD = 0.25  # seconds between two looks
FULL_WIDTH = 100  # columns; below, the head and the names of pods are shorter
NARROW = 70  # columns; below, the time is left out


class Counts(NamedTuple):
    """How many pods and nodes are how far."""

    nodes: int = 0
    ready: int = 0
    pending: int = 0
    starting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    def __str__(self) -> str:
        pods = ", ".join(
            f"{count} {name}"
            for name, count in zip(self._fields[2:], self[2:], strict=True)
            if count or name in ("pending", "running")
        )
        return f"{self.ready} of {count(self.nodes, 'node')} ready; pods: {pods}"


class Tally:
    """Counts that follow the cache, change by change: looking costs nothing however many pods there are."""

    def __init__(self, pods: Collection[Pod], nodes: Collection[Node]) -> None:
        self._counts: Counter[str] = Counter()
        pods.subscribe(self._pod_changed)
        nodes.subscribe(self._node_changed)

    def counts(self) -> Counts:
        return Counts(**{name: self._counts[name] for name in Counts._fields})

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._counts[_state(old)] -= 1
        if new is not None:
            self._counts[_state(new)] += 1

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for node, step in ((old, -1), (new, 1)):
            if node is not None:
                self._counts["nodes"] += step
                self._counts["ready"] += step * _is_ready(node)


def _state(pod: Pod) -> str:
    if pod.finished:
        return pod.status.phase.lower()
    if pod.status.phase == "Running":
        return "running"
    return "starting" if pod.spec.node_name else "pending"


def _is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


Look = Callable[[Decision], Stage]


def as_decided(decision: Decision) -> Stage:
    """The stage of a pod that is bound as soon as it has a node."""
    return stage_of(None, decision)


class View(Protocol):
    """Where news go. `refresh` is called a few times a second."""

    def decided(self, decision: Decision) -> None: ...

    def say(self, message: str, *, trouble: bool = False) -> None: ...

    def refresh(self, counts: Counts) -> None: ...

    def close(self) -> None: ...


class PlainView:
    """A line for every change of a pod's stage and every piece of news; the counts once they rest."""

    def __init__(self, stage: Look = as_decided) -> None:
        self._shown = self._last = Counts()
        self._stage = stage
        self._open: dict[str, tuple[Decision, str]] = {}  # pods with a node that are not bound yet

    def decided(self, decision: Decision) -> None:
        if decision.node:
            self._open[decision.pod] = (decision, CHOSEN)
        else:
            click.echo(f"{_now()} {decision.pod} -> {decision.result}: {why(decision)}")

    def say(self, message: str, *, trouble: bool = False) -> None:
        click.echo(f"{_now()} {message}", err=trouble)

    def refresh(self, counts: Counts) -> None:
        self._follow()
        if counts == self._last != self._shown:
            self._shown = counts
            click.echo(f"{_now()} {counts}")
        self._last = counts

    def close(self) -> None:
        self._follow()

    def _follow(self) -> None:
        for pod, (decision, shown) in list(self._open.items()):
            name, node, text = self._stage(decision)
            if name == shown:
                continue
            if name == BOUND:
                click.echo(f"{_now()} {pod} -> {node}: {text}")
            elif name == WAITING:
                click.echo(f"{_now()} {pod} waits on {node} for {text}")
            elif name == FAILED:
                click.echo(f"{_now()} {pod} not bound to {node}: {text}")
            if name == WAITING:
                self._open[pod] = (decision, name)
            else:
                del self._open[pod]


class TerminalView:
    """Counts and the pods decided about last, drawn in place; news scroll by above them."""

    def __init__(self, console: Console, stage: Look = as_decided) -> None:
        self._console = console
        self._stage = stage
        self._latest: dict[str, tuple[str, Decision]] = {}  # by pod, the latest last
        self._decided = 0
        self._counts = Counts()
        self._live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._draw)
        self._live.start()

    def decided(self, decision: Decision) -> None:
        self._decided += 1
        self._latest.pop(decision.pod, None)
        self._latest[decision.pod] = (_now(), decision)
        if len(self._latest) > LATEST:
            del self._latest[next(iter(self._latest))]

    def say(self, message: str, *, trouble: bool = False) -> None:
        self._console.print(Text(f"{_now()} {printable(message)}", style="red" if trouble else "dim"))

    def refresh(self, counts: Counts) -> None:
        self._counts = counts
        self._live.refresh()

    def close(self) -> None:
        self._live.stop()

    def _draw(self) -> Group:
        width = self._console.width
        head = self._head(short=width < FULL_WIDTH)
        columns = ["TIME", "POD", "STATE", "WHY"] if width >= NARROW else ["POD", "STATE", "WHY"]
        table = Table(*columns, box=None, header_style="bold", pad_edge=False, expand=True)
        for column in table.columns:
            column.no_wrap = True
            column.overflow = "ellipsis"
        table.columns[-1].ratio = 1
        table.columns[-3].max_width = width // 3
        table.columns[-2].max_width = max(width // 4, 14)
        for moment, decision in reversed(self._latest.values()):
            stage = self._stage(decision)
            state = f"{stage.name} {stage.node}" if stage.node else stage.name
            pod = decision.pod if width >= FULL_WIDTH else decision.pod.removeprefix("default/")
            cells = [escape(pod), f"[{_STYLES[stage.name]}]{escape(state)}[/]", escape(printable(stage.text))]
            table.add_row(*([moment, *cells] if width >= NARROW else cells))
        return Group(head, Text(), table) if self._latest else Group(head)

    def _head(self, short: bool) -> Text:
        counts = self._counts
        gap = "  " if short else "   "
        parts = [
            ("nodes ", "bold"), (f"{counts.ready}/{counts.nodes} ready", _style(counts[0] == counts[1])),
            (f"{gap}pods ", "bold"), (f"{counts.pending} pending", _style(not counts.pending)),
        ]  # fmt: skip
        for name, style in (("starting", ""), ("running", "green"), ("succeeded", ""), ("failed", "red")):
            number = getattr(counts, name)
            if number or not short:
                parts.append((f"  {number} {name}", style if number else ""))
        if not short:
            parts += [("   attempts ", "bold"), (f"{self._decided}", "")]
        return Text.assemble(*parts)


_STYLES = {CHOSEN: "cyan", WAITING: "magenta", BOUND: "green", FAILED: "red", PENDING: "yellow"}


def _style(fine: bool) -> str:
    return "green" if fine else "yellow"


def _now() -> str:
    return time.strftime("%H:%M:%S")
