"""The objects that plugins read and write through their client."""

from __future__ import annotations

from typing import Any

from mooring.api.meta import KubeObject
from mooring.framework.nodes import NodeInfo
from mooring.framework.pod import PodInfo

Written = KubeObject | PodInfo | NodeInfo


def kube_object(obj: Written) -> Any:
    """Return the object itself, or the Pod or Node of what the framework passes to plugins."""
    if isinstance(obj, KubeObject):
        return obj
    return obj.pod if isinstance(obj, PodInfo) else obj.node
