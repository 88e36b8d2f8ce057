"""What is compared of the answers of two servers: codes, warnings, bodies without what is never the same."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

Tree = dict[str, Any]
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PORT = re.compile(r"127\.0\.0\.1:\d{2,}")
_TYPE_OF_SELF = re.compile(r"selfType\d+")
"""The name of a type, which is different each time."""
_NEVER_THE_SAME = ("creationTimestamp", "deletionTimestamp", "managedFields", "resourceVersion", "uid")


class Answer(NamedTuple):
    code: int
    text: str
    warnings: list[str]


def normal(answer: Answer) -> list[Any]:
    try:
        text = _TYPE_OF_SELF.sub("selfType", _PORT.sub("127.0.0.1:port", _UID.sub("uid", answer.text)))
        tree = json.loads(text)
    except json.JSONDecodeError:
        return [answer.code, answer.text.strip(), answer.warnings]
    return [answer.code, _normal(tree), sorted(answer.warnings)]


def _normal(tree: Tree) -> Any:
    if tree.get("kind") == "Status":
        return _status(tree)
    if "items" in tree:
        return [_normal(item) for item in tree["items"]]
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _NEVER_THE_SAME}
    found = {**tree, "metadata": metadata}
    if tree["kind"] == "CustomResourceDefinition":  # what was sent comes back; the rest is what matters
        left = ("versions", "conversion") if tree["spec"]["conversion"].get("webhook") else ("versions",)
        found["spec"] = {name: value for name, value in tree["spec"].items() if name not in left}
        for condition in tree["status"]["conditions"] or ():
            del condition["lastTransitionTime"]
    return found


def _status(tree: Tree) -> Tree:
    """Causes in the order of their fields: Go's maps have none."""
    details = tree.get("details") or {}
    causes = sorted(f"{c['field']}: {c['message']} ({c['reason']})" for c in details.get("causes", ()))
    shown = {"reason": tree.get("reason", ""), "message": tree.get("message", "")}
    if causes:
        shown["message"] = shown["message"].partition(" is invalid: ")[0]
    return {**shown, **({"causes": causes} if causes else {}), "kind": details.get("kind", "")}
