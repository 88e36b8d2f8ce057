"""The roles and bindings of a new cluster.

`roles.txt` holds them; `make_roles_table.py` of the tests writes it. Below the name of each are its rules
(groups | resources | paths | names | verbs), or its subjects and, after "=", its role.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from mooring.sandbox.apiserver.authorization.rbac import GROUP
from mooring.sandbox.apiserver.objects import Tree

_METADATA: Final = {
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}
_AGGREGATED: Final = ("admin", "edit", "view")


@cache
def default_roles() -> tuple[Tree, ...]:
    """Must not be modified."""
    return tuple(_read())


def _read() -> Iterator[Tree]:
    text = (files("mooring.sandbox.apiserver.authorization") / "roles.txt").read_text()
    for block in text.replace("\n  ", "\t").splitlines():
        head, *lines = block.split("\t")
        made = _named(head)
        if made["kind"].endswith("Role"):
            made["rules"] = [_rule(line) for line in lines]
            if made["metadata"]["name"] in _AGGREGATED:
                labels = {f"{GROUP}/aggregate-to-{made['metadata']['name']}": "true"}
                made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": labels}]}
        else:
            *subjects, role = lines
            _, kind, name = role.split(" ")
            made["subjects"] = [_subject(line) for line in subjects]
            made["roleRef"] = {"apiGroup": GROUP, "kind": kind, "name": name}
        yield made


def _named(head: str) -> Tree:
    kind, *rest = head.split(" ")
    metadata: Tree = {**_METADATA, "labels": dict(_METADATA["labels"])}
    if not kind.startswith("Cluster"):
        metadata["namespace"] = rest.pop(0)
    metadata["name"], *labels = rest
    metadata["labels"].update(dict.fromkeys(labels, "true"))
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def _rule(line: str) -> Tree:
    groups, *rest = (part.strip() for part in line.split("|"))
    members = ("resources", "nonResourceURLs", "resourceNames", "verbs")
    rule = {member: part.split(",") for member, part in zip(members, rest, strict=True) if part}
    return {"apiGroups": groups.split(","), **rule} if "resources" in rule else rule


def _subject(line: str) -> Tree:
    kind, namespace, name = line.split(" ")
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": kind, "name": name}
