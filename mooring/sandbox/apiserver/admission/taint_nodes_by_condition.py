"""TaintNodesByCondition: taint new nodes as not ready."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.authorization.users import IN_PROCESS
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree

NOT_READY: Final = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(AdmissionPlugin):
    """Nodes created in this process stay untainted unless their status says that they are not ready."""

    storages = frozenset({"nodes"})

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.user is IN_PROCESS and not _says_not_ready(obj):
            return
        taints = obj["spec"].get("taints") or []
        if not any((one.get("key"), one.get("effect")) == (NOT_READY, "NoSchedule") for one in taints):
            obj["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


def _says_not_ready(node: Tree) -> bool:
    conditions = (node.get("status") or {}).get("conditions")
    if not conditions:
        return False
    return any(one.get("type") == "Ready" and one.get("status") != "True" for one in conditions)
