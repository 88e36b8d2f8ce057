"""Sessions with kubectl (data/sessions.yaml): how they are run, and what is compared of what it printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.sandbox.apiserver.kubectl import Kubectl
from tests.sandbox.apiserver.scene import shown

DATA = Path(__file__).parent / "data"
RECORDED = DATA / "sessions.json"
_UID_OF = re.compile(r"\{uid (\S+)\}")
_NEVER_THE_SAME = (
    (re.compile(r"^[EIW]\d{4} .*\n", re.MULTILINE), ""),  # what kubectl notes for its developers
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000( UTC)?"), "TIME"),
    (re.compile(r'(?<=resourceVersion: )"\d+"'), "VERSION"),
    (re.compile(r"/\S*/(LIVE|MERGED)-\d+/"), r"\1/"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"\b3[0-2]\d{3}\b"), "PORT"),
    (re.compile(r"(?<=, was )\d+"), "VERSION"),
    (re.compile(r"\bey[\w-]+\.[\w-]+\.[\w-]+"), "TOKEN"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "SERVER"),
)


class Step(NamedTuple):
    command: str
    given: Any = None


class Shown(NamedTuple):
    code: int
    page: str


def sessions() -> dict[str, list[Step]]:
    recorded = yaml.safe_load((DATA / "sessions.yaml").read_text())
    return {
        name: [Step(step) if isinstance(step, str) else Step(*step) for step in steps]
        for name, steps in recorded.items()
    }


class Recording(NamedTuple):
    version: str
    shown: dict[str, list[Shown]]


def recording() -> Recording:
    recorded = json.loads(RECORDED.read_text())
    return Recording(
        recorded["version"],
        {name: [Shown(*one) for one in pages] for name, pages in recorded["shown"].items()},
    )


def play(kubectl: Kubectl, session: str, steps: list[Step]) -> list[Shown]:
    """Do what a session tells, in a namespace of its own."""
    namespace = f"sessions-{session}"
    kubectl("create", "namespace", namespace)
    return [_do(kubectl, namespace, step) for step in steps]


def _do(kubectl: Kubectl, namespace: str, step: Step) -> Shown:
    def uid(found: re.Match[str]) -> str:
        return kubectl("-n", namespace, "get", found[1], "-o", "jsonpath={.metadata.uid}")

    given = "" if step.given is None else _UID_OF.sub(uid, json.dumps(step.given))
    words = shlex.split(step.command)
    if words[0] != "__complete":  # which would complete the flags as well
        words = ["-n", namespace, *words]
    code, page = kubectl.run(*words, stdin=given)
    return Shown(code, _comparable(_in_order(page) if words[2:3] == ["drain"] else page))


def _in_order(page: str) -> str:
    """What is said of several pods at once comes in any order."""
    return "\n".join(sorted(part.strip() for part in re.split(r"[\n;,\[\]]|Warning: ", page)))


def _comparable(page: str) -> str:
    for pattern, mark in _NEVER_THE_SAME:
        page = pattern.sub(mark, page)
    return shown(page)
