"""What `mooring up` shows while it runs: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter, deque
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

LATEST = 12  # decisions on the screen
PERIOD = 0.25  # seconds between two looks


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


class View(Protocol):
    """Where news go. `refresh` is called a few times a second."""

    def decided(self, decision: Decision) -> None: ...

    def say(self, message: str, *, trouble: bool = False) -> None: ...

    def refresh(self, counts: Counts) -> None: ...

    def close(self) -> None: ...


class PlainView:
    """A line for every decision and every piece of news; the counts once they rest."""

    def __init__(self) -> None:
        self._shown = self._last = Counts()

    def decided(self, decision: Decision) -> None:
        where = decision.node or decision.result
        click.echo(f"{_now()} {decision.pod} -> {where}: {why(decision)}")

    def say(self, message: str, *, trouble: bool = False) -> None:
        click.echo(f"{_now()} {message}", err=trouble)

    def refresh(self, counts: Counts) -> None:
        if counts == self._last != self._shown:
            self._shown = counts
            click.echo(f"{_now()} {counts}")
        self._last = counts

    def close(self) -> None:
        """Nothing is left on the screen that would have to go."""


class TerminalView:
    """Counts and the latest decisions, drawn in place; news scroll by above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: deque[tuple[str, Decision]] = deque(maxlen=LATEST)
        self._decided = 0
        self._counts = Counts()
        self._live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._draw)
        self._live.start()

    def decided(self, decision: Decision) -> None:
        self._decided += 1
        self._latest.appendleft((_now(), decision))

    def say(self, message: str, *, trouble: bool = False) -> None:
        self._console.print(Text(f"{_now()} {printable(message)}", style="red" if trouble else "dim"))

    def refresh(self, counts: Counts) -> None:
        self._counts = counts
        self._live.refresh()

    def close(self) -> None:
        self._live.stop()

    def _draw(self) -> Group:
        counts = self._counts
        head = Text.assemble(
            ("nodes ", "bold"), (f"{counts.ready}/{counts.nodes} ready", _style(counts[0] == counts[1])),
            ("   pods ", "bold"), (f"{counts.pending} pending", _style(not counts.pending)),
            f"  {counts.starting} starting  ", (f"{counts.running} running", "green"),
            f"  {counts.succeeded} succeeded  ", (f"{counts.failed} failed", "red" if counts.failed else ""),
            ("   attempts ", "bold"), f"{self._decided}",
        )  # fmt: skip
        table = Table(
            "TIME", "POD", "NODE", "WHY", box=None, header_style="bold", pad_edge=False, expand=True
        )
        for column in table.columns:
            column.no_wrap = True
            column.overflow = "ellipsis"
        table.columns[3].ratio = 1
        for moment, decision in self._latest:
            style = "green" if decision.node else "yellow" if decision.result == "unschedulable" else "red"
            node = f"[{style}]{escape(decision.node or f'<{decision.result}>')}[/]"
            table.add_row(moment, escape(decision.pod), node, escape(printable(why(decision))))
        return Group(head, Text(), table) if self._latest else Group(head)


def _style(fine: bool) -> str:
    return "green" if fine else "yellow"


def _now() -> str:
    return time.strftime("%H:%M:%S")
