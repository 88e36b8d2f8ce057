"""Admission policies, and writes that they admit or deny: asked of a real API server and of the embedded one.

`python -m tests.sandbox.apiserver.record_policies` keeps the real server's answers in data/policies.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sandbox.apiserver.patch_replay import DATA, Answer, Step
from tests.sandbox.apiserver.policy_scenes import evaluation, mutation, refusal, selection
from tests.sandbox.apiserver.policy_scenes.scene import Scene

RECORDED: Path = DATA / "policies.json"
_SCENES = {
    "denials": evaluation.denials,
    "messages": evaluation.messages,
    "variables": evaluation.variables,
    "errors": evaluation.errors,
    "operations": evaluation.operations,
    "conditions": evaluation.conditions,
    "params": selection.params,
    "actions": selection.actions,
    "matching": selection.matching,
    "authorizer": selection.authorizer,
    "mutations": mutation.mutations,
    "reinvoked": mutation.reinvoked,
    "refused": refusal.refused,
    "mistyped": refusal.mistyped,
}


def scenes() -> dict[str, list[Step]]:
    found = {}
    for name, build in _SCENES.items():
        scene = Scene(name)
        build(scene)
        found[name] = scene.steps
    return found


def normal(answer: Answer) -> list[Any]:
    """The code, what is said or stored, and the warnings, without what differs from server to server."""
    tree = answer.tree
    if tree.get("kind") == "Status":
        details = {name: value for name, value in (tree.get("details") or {}).items() if name != "uid"}
        shown = {**{name: tree[name] for name in ("reason", "message") if name in tree}, "details": details}
        return [answer.code, shown, answer.warnings]
    metadata = {
        name: value for name, value in tree["metadata"].items() if name in ("name", "labels", "annotations")
    }
    return [answer.code, {"metadata": metadata, "spec": _plain(tree.get("spec") or {})}, answer.warnings]


def _plain(value: Any) -> Any:
    """A tree without nulls, which the form of the file has no room for."""
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items() if held is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value
