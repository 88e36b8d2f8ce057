"""Scenes of writes (data/writes.yaml and others): what is compared of the answers of two servers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.sandbox.apiserver.patch_replay import DATA, PATCHES, Answer, Step

Tree = dict[str, Any]

FILES = ("writes", "devices", "networking")
PAUSE = "PAUSE"
_NEVER_THE_SAME = ("creationTimestamp", "managedFields", "resourceVersion", "uid")
_TIMES = (
    "allocationTimestamp",
    "timeAdded",
    "expirationTimestamp",
    "lastPhaseTransitionTime",
    "lastProbeTime",
    "lastTransitionTime",
    "lastUpdateTime",
    "deletionTimestamp",
)
_REQUESTER = ("username", "uid", "groups")  # the user of each server
_NODE_PORTS = range(30000, 32768)


def recording(file: str) -> Path:
    return DATA / f"{file}.json"


def scenes(file: str) -> dict[str, list[Step]]:
    recorded = yaml.safe_load((DATA / f"{file}.yaml").read_text())
    return {
        name: [_step(recorded["paths"], _namespace(name), *step) for step in steps]
        for name, steps in recorded["scenes"].items()
    }


def all_scenes() -> dict[str, list[Step]]:
    return {name: steps for file in FILES for name, steps in scenes(file).items()}


def _step(paths: dict[str, str], namespace: str, what: str, body: Any = None, user: str = "") -> Step:
    verb, _, where = what.partition(" ")
    resource = re.split("[/?]", where)[0]
    path = paths.get(resource, "").replace("{}", namespace) + where[len(resource) :]
    data = None if body is None else json.dumps(body).encode()
    content_type = PATCHES.get(verb, "application/json")
    return Step("PATCH" if verb in PATCHES else verb, path, content_type, data, "tester", user)


def _namespace(scene: str) -> str:
    return "r-" + scene.replace(" ", "-")


def making_namespace(scene: str) -> Step:
    return _step(
        {"namespaces": "/api/v1/namespaces"}, "", "POST namespaces", {"metadata": {"name": _namespace(scene)}}
    )


# ---- what is compared -----------------------------------------------------------------------------


def normal(answer: Answer) -> list[Any]:
    tree = answer.tree
    if tree.get("kind") == "Status" and tree.get("status") == "Failure":
        return [answer.code, _refusal(tree), []]
    if tree.get("kind") == "Status":
        return [answer.code, {"status": "Success", "causes": []}, []]
    uid = tree["metadata"].get("uid", "")
    if tree["kind"] == "CertificateSigningRequest":
        tree["spec"] = {key: held for key, held in tree["spec"].items() if key not in _REQUESTER}
    return [answer.code, _object(tree, uid), []]


def _object(value: Any, uid: str, name: str = "") -> Any:
    """A tree in which what differs from server to server and from time to time is a mark."""
    if isinstance(value, dict):
        return {
            key: _object(held, uid, key)
            for key, held in value.items()
            if not (name == "metadata" and key in _NEVER_THE_SAME)
        }
    if isinstance(value, list):
        return [_object(item, uid, name) for item in value]
    if value is None:  # which the form of the file has no room for
        return "null"
    if name in _TIMES:
        return "a time"
    if name == "token":
        return "a token"
    if name in ("clusterIP", "clusterIPs") and value != "None":
        return "an address"
    if name in ("nodePort", "healthCheckNodePort") and value in _NODE_PORTS:
        return "a port"
    return "the uid" if value == uid and uid else value


def _refusal(tree: Tree) -> Tree:
    """Causes without an order, since Go's maps have none, and each once."""
    details = tree.get("details") or {}
    causes = {
        f"{cause.get('field')}: {_message(cause['message'])} ({cause.get('reason')})"
        for cause in details.get("causes") or ()
    }
    message = _message(tree["message"])
    if len(causes) > 1:
        message = message.partition(" is invalid: ")[0]
    recorded = {name: _message(details[name]) for name in ("name", "group", "kind") if name in details}
    return {"reason": tree.get("reason"), "message": message, "causes": sorted(causes), **recorded}


_VALUE = re.compile(r"(?<=value: )[{\[]")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONG = 300  # a spec; real servers show their internal form of it
_GENERATED = re.compile(r"(?<=Bad_)[a-z0-9]{5}")


def _message(text: str) -> str:
    """The first line, with the members of values in order. What follows tells what changed, by each server in
    its own form."""
    text = _GENERATED.sub("…", _UID.sub("a uid", text.partition("\n")[0]))
    found = _VALUE.search(text)
    if found is None:
        return text
    try:
        value, end = json.JSONDecoder().raw_decode(text, found.start())
    except json.JSONDecodeError:
        return text
    shown = json.dumps(value, sort_keys=True)
    return text[: found.start()] + (shown if len(shown) < _LONG else "…") + text[end:]
