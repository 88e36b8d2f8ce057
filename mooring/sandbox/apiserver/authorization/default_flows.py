"""The FlowSchemas and PriorityLevelConfigurations that every API server has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.sandbox.apiserver.objects import Tree

_GROUP_VERSION: Final = "flowcontrol.apiserver.k8s.io/v1"
_ANNOTATIONS: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}
_EVERYTHING: Final[Tree] = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
_NODES: Final[Tree] = {
    "resourceRules": [
        {
            "verbs": ["*"],
            "apiGroups": [""],
            "resources": ["nodes", "nodes/status"],
            "clusterScope": True,
            "namespaces": ["*"],
        },
        {"verbs": ["*"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]},
    ]
}
_LEASES: Final[Tree] = {
    "resourceRules": [
        {
            "verbs": ["get", "create", "update"],
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "namespaces": ["*"],
        }
    ]
}
_PROBES: Final[Tree] = {
    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]
}


def _user(name: str) -> Tree:
    return {"kind": "User", "user": {"name": name}}


def _group(name: str) -> Tree:
    return {"kind": "Group", "group": {"name": name}}


_ALL: Final = (_group("system:unauthenticated"), _group("system:authenticated"))
_MANAGER: Final = _user("system:kube-controller-manager")
_SCHEDULER: Final = _user("system:kube-scheduler")
_SYSTEM_ACCOUNTS: Final = {
    "kind": "ServiceAccount",
    "serviceAccount": {"namespace": "kube-system", "name": "*"},
}
_SCHEMAS: Final = (  # name, precedence, level, how flows are told apart, subjects, rules
    ("catch-all", 10000, "catch-all", "ByUser", _ALL, _EVERYTHING),
    ("exempt", 1, "exempt", "", (_group("system:masters"),), _EVERYTHING),
    ("global-default", 9900, "global-default", "ByUser", _ALL, _EVERYTHING),
    ("kube-controller-manager", 800, "workload-high", "ByNamespace", (_MANAGER,), _EVERYTHING),
    ("kube-scheduler", 800, "workload-high", "ByNamespace", (_SCHEDULER,), _EVERYTHING),
    (
        "kube-system-service-accounts",
        900,
        "workload-high",
        "ByNamespace",
        (_SYSTEM_ACCOUNTS,),
        _EVERYTHING,
    ),
    ("probes", 2, "exempt", "", _ALL, _PROBES),
    ("service-accounts", 9000, "workload-low", "ByUser", (_group("system:serviceaccounts"),), _EVERYTHING),
    (
        "system-leader-election",
        100,
        "leader-election",
        "ByUser",
        (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS),
        _LEASES,
    ),
    ("system-node-high", 400, "node-high", "ByUser", (_group("system:nodes"),), _NODES),
    ("system-nodes", 500, "system", "ByUser", (_group("system:nodes"),), _EVERYTHING),
)
_LEVELS: Final = (  # name, shares, percentage that can be lent, queues, queues of a flow
    ("catch-all", 5, 0, 0, 0),
    ("global-default", 20, 50, 128, 6),
    ("leader-election", 10, 0, 16, 4),
    ("node-high", 40, 25, 64, 6),
    ("system", 30, 33, 64, 6),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
)


def default_flow_schemas() -> Iterator[Tree]:
    for name, precedence, level, distinguisher, subjects, rules in _SCHEMAS:
        spec: Tree = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if distinguisher:
            spec["distinguisherMethod"] = {"type": distinguisher}
        spec["rules"] = [{"subjects": list(subjects), **rules}]
        yield _object("FlowSchema", name, spec)


def default_priority_levels() -> Iterator[Tree]:
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    yield _object("PriorityLevelConfiguration", "exempt", {"type": "Exempt", "exempt": exempt})
    for name, shares, lendable, queues, hand in _LEVELS:
        response: dict[str, Any] = {"type": "Reject"}
        if queues:
            queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {
            "nominalConcurrencyShares": shares,
            "limitResponse": response,
            "lendablePercent": lendable,
        }
        yield _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


def _object(kind: str, name: str, spec: Tree) -> Tree:
    metadata = {"name": name, "generation": 1, "annotations": _ANNOTATIONS}
    return {"apiVersion": _GROUP_VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": {}}
