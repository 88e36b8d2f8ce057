"""Commands in the containers of fake nodes, as the API server runs them for clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from mooring.sandbox.programs.program import Outcome


class ContainerRun(NamedTuple):
    """How the present run of a container goes. `started` is in seconds since the epoch."""

    started: float
    outcome: Outcome


class NotRunningError(Exception):
    """There is no such container, or it does not run."""


class Containers(Protocol):
    """The containers of a cluster, by the uid of their pod and their name."""

    def is_running(self, uid: str, container: str) -> bool: ...

    def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: str | None, *, is_dry: bool
    ) -> Outcome | None:
        """Return what a command does in a container; None where that is not known.

        What it writes is there for others unless `is_dry`. `stdin` is all of its input, or None if that is
        not there yet. Raises NotRunningError.
        """
        ...

    def follow(self, uid: str, container: str) -> ContainerRun:
        """Return how a container goes. Raises NotRunningError."""
        ...

    def enter(self, uid: str, container: str, text: str | None) -> None:
        """Add to the input of a container, or close it if there is no text. Raises NotRunningError."""
        ...

    def end(self, uid: str, container: str, exit_code: int) -> None:
        """End a container, if it runs: the client has left its shell."""
        ...

    def open_shell(self, uid: str, container: str) -> Callable[[str], Outcome | None]:
        """Return what runs lines that are entered in a shell, see `programs.program.run_line`. Raises
        NotRunningError, and so does what it returns."""
        ...


class NoContainers:
    """The containers of a cluster without nodes."""

    def is_running(self, uid: str, container: str) -> bool:
        return False

    def execute(
        self, uid: str, container: str, command: Sequence[str], stdin: str | None, *, is_dry: bool
    ) -> Outcome | None:
        raise NotRunningError(container)

    def follow(self, uid: str, container: str) -> ContainerRun:
        raise NotRunningError(container)

    def enter(self, uid: str, container: str, text: str | None) -> None:
        raise NotRunningError(container)

    def end(self, uid: str, container: str, exit_code: int) -> None:
        pass

    def open_shell(self, uid: str, container: str) -> Callable[[str], Outcome | None]:
        raise NotRunningError(container)
