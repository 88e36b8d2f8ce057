"""What the core wants done in the cluster. Drivers carry effects out and report back how it went."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from mooring.api.meta import Condition, ObjectReference
from mooring.core.binding import BindingCycle
from mooring.framework.handle import Client
from mooring.framework.pod import PodInfo


class Bind(msgspec.Struct, frozen=True):
    """Run a binding cycle, then report it with `Bindings.finished`."""

    cycle: BindingCycle


class Prepare(msgspec.Struct, frozen=True):
    """Run pre_bind of a member of a group, then report it with `GroupBindings.prepared`."""

    cycle: BindingCycle


class PatchPodStatus(msgspec.Struct, frozen=True):
    """Write a condition, a nomination, or both; None leaves that part as it is."""

    pod: PodInfo
    condition: Condition | None = None
    nominated_node: str | None = None


class EmitEvent(msgspec.Struct, frozen=True):
    """Record a Kubernetes event about a pod, or another object, reported by a profile: the pod's own where
    none is named."""

    regarding: PodInfo | ObjectReference
    type: str
    reason: str
    action: str
    note: str
    profile: str = ""


class Evict(msgspec.Struct, frozen=True):
    """Delete a victim of preemption, after marking it with the condition. The event is recorded once it is
    deleted."""

    victim: PodInfo
    preemptor: PodInfo
    condition: Condition
    event: EmitEvent | None = None


class Write(msgspec.Struct, frozen=True):
    """Run a plugin's write, which handles its failures itself."""

    work: Callable[[Client], Coroutine[Any, Any, None]]


Effect = Bind | Prepare | PatchPodStatus | EmitEvent | Evict | Write
