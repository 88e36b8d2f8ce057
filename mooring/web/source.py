"""Where the page reads from: a scheduler with its decisions, live or loaded from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mooring.config import LoadedConfig
from mooring.core.scheduler import Scheduler
from mooring.explain.log import DecisionLog
from mooring.runtime.registry import Registry


class Source(Protocol):
    """A scheduler to look into. `core` may be replaced by another one, after a reload for example."""

    mode: str  # sandbox, scheduler, file or run

    @property
    def core(self) -> Scheduler | None: ...
    @property
    def decisions(self) -> DecisionLog | None: ...
    @property
    def config(self) -> LoadedConfig: ...
    @property
    def registry(self) -> Registry: ...

    def status(self) -> str:
        """Return why the queue may be empty, such as "standby"; empty if there is nothing to say."""
        ...

    async def ask(self, question: Callable[[], Any]) -> Any:
        """Evaluate a question about the core while it does not change."""
        ...


class FixedSource:
    """A scheduler that has the objects of files, and whose queue nothing works off."""

    mode = "file"
    decisions = None

    def __init__(self, core: Scheduler, config: LoadedConfig, registry: Registry, name: str) -> None:
        self.core = core
        self.config = config
        self.registry = registry
        self._name = name

    def status(self) -> str:
        return self._name

    async def ask(self, question: Callable[[], Any]) -> Any:
        return question()
