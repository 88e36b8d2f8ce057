"""PodTopologyLabels: copy the zone and region labels of the node to a pod that is bound to it."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree, dig

_LABELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class PodTopologyLabels(AdmissionPlugin):
    storages = frozenset({"pods"})
    subresources = True

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.subresource == "binding":
            node = dig(obj, "target", "name") if dig(obj, "target", "kind") == "Node" else None
        elif write.subresource:
            return
        else:
            node = obj["spec"].get("nodeName")
        record = write.api.record("nodes", node) if node else None
        if record is None:
            return
        topology = {key: record.labels[key] for key in _LABELS if key in record.labels}
        if topology:
            obj.setdefault("metadata", {}).setdefault("labels", {}).update(topology)
