"""DefaultTolerationSeconds: tolerate not-ready and unreachable nodes for five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.objects import Tree

_SECONDS: Final = 300
_KEYS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    storages = frozenset({"pods"})

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        tolerations: Sequence[Tree] = obj["spec"].get("tolerations", ())
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
            for key in _KEYS
            if not any(_tolerates(toleration, key) for toleration in tolerations)
        ]
        if added:
            obj["spec"]["tolerations"] = [*tolerations, *added]


def _tolerates(toleration: Tree, key: str) -> bool:
    tolerated, effect = toleration.get("key", key), toleration.get("effect", "NoExecute")
    return bool(tolerated == key and effect == "NoExecute")
