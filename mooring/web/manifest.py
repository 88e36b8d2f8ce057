"""A pod as a manifest to edit, as it is or as one of the suggested changes would make it."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import yaml

from mooring.api.documents import creatable_metadata
from mooring.api.objects import Pod
from mooring.core.scheduler import Scheduler
from mooring.explain.changes import altered_pod
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.pod import PodInfo
from mooring.runtime.runners import PluginError


def shown_pod(scheduler: Scheduler, pod: PodInfo, kind: str, field: str) -> Pod:
    """Return a pod; with a change's kind and field, the changed pod."""
    changed = None
    if field and pod.scheduler_name in scheduler.profiles:
        with suppress(PluginError):  # then the pod as it is, to be edited by hand
            changed = altered_pod(Rehearsal(scheduler, pod), kind, field)
    return pod.pod if changed is None else changed


def pod_manifest(pod: Pod) -> str:
    """Return the YAML of a pod, without what the cluster adds to it."""
    tree = msgspec.to_builtins(pod)
    tree.pop("status", None)
    tree["metadata"] = creatable_metadata(tree["metadata"])
    tree["spec"].pop("nodeName", None)
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **tree}, sort_keys=False, allow_unicode=True)
