"""Requests belong to the FlowSchema that matches first."""

from __future__ import annotations

import pytest

from mooring.sandbox.apiserver.authorization.flows import Flows
from mooring.sandbox.apiserver.authorization.rules import Attributes
from mooring.sandbox.apiserver.authorization.users import ADMIN, User, service_account
from mooring.sandbox.apiserver.bootstrap import bootstrap_flows
from tests.sandbox.apiserver.kit import Direct

ALL = "system:authenticated"
SCHEMAS = "flowschemas.flowcontrol.apiserver.k8s.io"
LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
PODS = Attributes("list", "", "pods", "default")
NODE = User("system:node:n", ("system:nodes", ALL))
SCHEDULER = User("system:kube-scheduler", (ALL,))
LEASE = Attributes("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler")


@pytest.mark.parametrize(
    ("user", "attributes", "schema", "level"),
    [
        (ADMIN, PODS, "exempt", "exempt"),
        (User("jane", (ALL,)), PODS, "global-default", "global-default"),
        (User("jane", (ALL,)), Attributes("get", path="/readyz"), "probes", "exempt"),
        (User("jane", (ALL,)), Attributes("get", path="/version"), "global-default", "global-default"),
        (service_account("default", "a"), PODS, "service-accounts", "workload-low"),
        (service_account("kube-system", "a"), PODS, "kube-system-service-accounts", "workload-high"),
        (NODE, PODS, "system-nodes", "system"),
        (NODE, Attributes("update", "", "nodes/status", "", "n"), "system-node-high", "node-high"),
        (SCHEDULER, LEASE, "system-leader-election", "leader-election"),
        (SCHEDULER, PODS, "kube-scheduler", "workload-high"),
    ],
)
def test_default_flows(direct: Direct, user: User, attributes: Attributes, schema: str, level: str) -> None:
    bootstrap_flows(direct.api)
    flow = Flows(direct.api.store).classify(user, attributes)
    assert flow is not None
    names = {
        tree["metadata"]["uid"]: tree["metadata"]["name"]
        for table in (SCHEMAS, LEVELS)
        for tree in direct.api.read_all(table)
    }
    assert (names[flow.schema], names[flow.level]) == (schema, level)


def test_schemas_without_their_level_do_not_count(direct: Direct) -> None:
    flows = Flows(direct.api.store)
    assert flows.classify(ADMIN, PODS) is None
    bootstrap_flows(direct.api)
    before = flows.classify(ADMIN, PODS)
    assert before is not None
    direct.ask("delete", "prioritylevelconfigurations", "exempt", group="flowcontrol.apiserver.k8s.io")
    after = flows.classify(ADMIN, PODS)
    assert after is not None
    assert after.schema != before.schema


def test_seats_follow_shares(direct: Direct) -> None:
    bootstrap_flows(direct.api)
    assert Flows(direct.api.store).seats() == {
        "catch-all": 13, "exempt": 0, "global-default": 49, "leader-election": 25, "node-high": 98,
        "system": 74, "workload-high": 98, "workload-low": 245,
    }  # fmt: skip
