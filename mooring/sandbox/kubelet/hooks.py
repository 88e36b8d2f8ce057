"""The postStart and preStop hooks of containers."""

from __future__ import annotations

from mooring.sandbox.kubelet.container_life import ContainerLife
from mooring.sandbox.programs.program import Outcome, run_hook
from mooring.sandbox.programs.work import Work


def run_post_start(one: ContainerLife, now: float, work: Work) -> Outcome | None:
    """Run the postStart hook of a container that starts; None where there is none, or it is not known."""
    if one.spec is None or one.spec.lifecycle is None:
        return None
    return run_hook(one.spec, one.spec.lifecycle.post_start, one.sources, one.files, now, work)


def run_pre_stop(one: ContainerLife, now: float, work: Work) -> Outcome | None:
    """Run the preStop hook of a container that stops; None where there is none, or it is not known."""
    hook = None if one.spec is None or one.spec.lifecycle is None else one.spec.lifecycle.pre_stop
    if hook is not None and hook.sleep is not None:
        return Outcome(float(hook.sleep.seconds))
    return None if one.spec is None else run_hook(one.spec, hook, one.sources, one.files, now, work)
