"""Scenes of patches (data/patches.yaml): asking the embedded server, and what is compared of its answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import yaml

from mooring.api.patches import merge_patch
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.users import IN_PROCESS, User
from mooring.sandbox.apiserver.dispatch import handle
from mooring.sandbox.apiserver.errors import no_such_resource, status_tree
from mooring.sandbox.apiserver.http.negotiation import PLAIN
from mooring.sandbox.apiserver.http.paths import find_target, verb_of
from mooring.sandbox.apiserver.verbs.request import ListAnswer, ObjectAnswer, Request, TreeAnswer
from tests.sandbox.apiserver.kit import Direct

DATA = Path(__file__).parent / "data"
RECORDED = DATA / "patches.json"
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_JSON_IN_MESSAGE = re.compile(r'(Invalid value: )"\{.*\}"', re.DOTALL)


class Step(NamedTuple):
    method: str
    path: str
    content_type: str
    body: bytes | None
    agent: str
    user: str = ""
    """The user to impersonate, instead of the administrator."""


class Answer(NamedTuple):
    code: int
    tree: Any
    warnings: list[str]


def scenes() -> dict[str, list[Step]]:
    content = yaml.safe_load((DATA / "patches.yaml").read_text())
    return {
        name: [_step(content["paths"], *step) for step in steps] for name, steps in content["scenes"].items()
    }


def resource_paths() -> list[str]:
    paths: dict[str, str] = yaml.safe_load((DATA / "patches.yaml").read_text())["paths"]
    return list(paths.values())


def _step(paths: dict[str, str], what: str, body: Any = None, agent: str = "tester") -> Step:
    verb, _, where = what.partition(" ")
    resource = re.split("[/?]", where)[0]
    path = paths[resource] + where[len(resource) :]
    sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    content_type = PATCHES.get(verb, "application/json")
    return Step(
        "PATCH" if verb in PATCHES else verb, path, content_type, None if body is None else sent, agent
    )


class Normal:
    """Makes answers of two servers comparable: times, uids and versions become marks.

    Where a client sends nonsense and Kubernetes answers 500, the embedded server says 400.
    """

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def __call__(self, answer: Answer) -> list[Any]:
        code, tree = answer.code, answer.tree
        if tree.get("kind") != "Status":
            return [code, self._object(tree), answer.warnings]
        status = _status(tree)
        if code == 500 and status["reason"] is None:
            code, status["reason"] = 400, "BadRequest"
        return [code, status, answer.warnings]

    def _object(self, tree: dict[str, Any]) -> dict[str, Any]:
        metadata = {**tree["metadata"], "uid": "uid"}
        del metadata["creationTimestamp"]
        version = metadata.pop("resourceVersion", "0")
        if version != "0":  # a dry run makes none
            metadata["resourceVersion"] = self._versions.setdefault(version, f"v{len(self._versions)}")
        managers = {_manager(entry): entry["fieldsV1"] for entry in metadata.pop("managedFields", ())}
        rest = {name: value for name, value in tree.items() if name != "status" or _says_something(value)}
        found: dict[str, Any] = _without_nulls({**rest, "metadata": metadata, "managedFields": managers})
        return found


def _manager(entry: dict[str, Any]) -> str:
    parts = [entry[name] for name in ("manager", "operation", "apiVersion", "fieldsType")]
    timed = "timed" if "time" in entry else "untimed"
    return " ".join([*parts, entry.get("subresource", ""), timed])


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(held) for name, held in value.items() if held is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _says_something(value: Any) -> bool:
    """Whether there is more in a status than the zeros of one that nobody wrote yet."""
    return any(map(_says_something, value.values())) if isinstance(value, dict) else bool(value)


def _status(tree: dict[str, Any]) -> dict[str, Any]:
    details = tree.get("details") or {}
    causes = [
        {**cause, "message": _JSON_IN_MESSAGE.sub(r"\1…", cause["message"])}
        for cause in details.get("causes", ())
    ]
    return {
        "reason": tree.get("reason"),
        "message": _JSON_IN_MESSAGE.sub(r"\1…", tree.get("message", "")),
        "causes": causes,
        **{name: details[name] for name in ("name", "group", "kind") if name in details},
    }


# ---- the file of answers: each object as a merge patch of the one before ---------------------------


def pack(answers: list[list[Any]]) -> list[list[Any]]:
    packed: list[list[Any]] = []
    before: Any = {}
    for code, tree, warnings in answers:
        if _is_status(tree):
            packed.append([code, tree, warnings])
        else:
            packed.append([code, merge_difference(before, tree), warnings])
            before = tree
    return packed


def _is_status(tree: dict[str, Any]) -> bool:
    return "causes" in tree


def recorded(path: Path = RECORDED) -> dict[str, list[list[Any]]]:
    unpacked: dict[str, list[list[Any]]] = {}
    for name, answers in json.loads(path.read_text()).items():
        before: Any = {}
        unpacked[name] = []
        for code, tree, warnings in answers:
            if not _is_status(tree):
                tree = before = merge_patch(before, tree)
            unpacked[name].append([code, tree, warnings])
    return unpacked


def merge_difference(old: Any, new: Any) -> Any:
    """The merge patch that makes `new` of `old`."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {
        name: merge_difference(old.get(name), value)
        for name, value in new.items()
        if name not in old or old[name] != value
    }
    return changed | {name: None for name in old if name not in new}


class Embedded:
    """The embedded server, asked step by step as over HTTP."""

    def __init__(self, user: User = IN_PROCESS) -> None:
        """Nodes of those in this process are not tainted; nor were they where answers were recorded first."""
        self.direct = Direct()
        self._user = user

    def ask(self, step: Step) -> Answer:
        path, _, query = step.path.partition("?")
        target = find_target(self.direct.api.registry, path)
        if target is None:
            return Answer(404, status_tree(no_such_resource()), [])
        request = Request(
            self.direct.api,
            verb_of(step.method, target, False),
            target.resource,
            target.namespace,
            target.name,
            User(step.user, ("system:authenticated",)) if step.user else self._user,
            target.subresource,
            parse_qs(query, keep_blank_values=True),
            step.body or b"",
            step.content_type,
            step.agent,
        )
        try:
            answer = handle(request)
        except ApiError as error:
            return Answer(error.code, status_tree(error), [])
        finally:
            self.direct.store.flush()
        if isinstance(answer, ObjectAnswer):
            tree = json.loads(PLAIN.single(answer.resource, answer.record))
            return Answer(answer.code, tree, answer.warnings)
        if isinstance(answer, ListAnswer):
            return Answer(200, json.loads(b"".join(PLAIN.listed(answer.resource, answer.listing))), [])
        assert isinstance(answer, TreeAnswer)
        return Answer(answer.code, answer.tree, answer.warnings)
