"""What depth `core` has in the place of controllers: objects whose pods a run creates as time passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.simulate.pod_log import Outcome

if TYPE_CHECKING:
    from mooring.simulate.engine import CoreRun


class PodOwner(Protocol):
    """Creates pods, and follows what becomes of them."""

    def changed(self) -> None:
        """A pod of the owner was created, bound, started or rejected."""

    def ended(self, row: int, outcome: Outcome) -> None: ...


class Controller(Protocol):
    """Looks after one object during a run."""

    def change(self, obj: KubeObject) -> None: ...

    def adopt(self, row: int, pod: Pod) -> None:
        """A pod of the object is there already."""

    def stop(self) -> None:
        """The object is deleted, and its pods with it."""


class Controlled(KubeObject):
    """An object that has a controller of its own in a run."""

    def begin(self, run: CoreRun) -> Controller:
        raise NotImplementedError
