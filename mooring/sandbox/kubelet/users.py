"""Containers that must not run as root."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.programs.program import runs_as_root
from mooring.sandbox.programs.specs import ContainerSpec, PodRun, SecurityContext

_NONE: Final = SecurityContext()


def root_problem(run: PodRun | None, spec: ContainerSpec | None) -> str:
    """Return why a container with `runAsNonRoot` is not started, in kubelet's words, or ""."""
    if run is None or spec is None:
        return ""
    pod, own = run.spec.security_context or _NONE, spec.security_context or _NONE
    if not (pod.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root):
        return ""
    user = pod.run_as_user if own.run_as_user is None else own.run_as_user
    metadata = run.metadata
    where = f'(pod: "{metadata.name}_{metadata.namespace}({metadata.uid})", container: {spec.name})'
    if user == 0:
        return f"container's runAsUser breaks non-root policy {where}"
    if user is None and runs_as_root(spec.image):
        return f"container has runAsNonRoot and image will run as root {where}"
    return ""
