"""create, update, delete: what a real API server answers to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.dispatch import begin_deletion
from mooring.sandbox.apiserver.verbs.request import ObjectAnswer, Request
from tests.sandbox.apiserver.kit import USER, Direct, pod

CONFIG_MAP = {"metadata": {"name": "a"}, "data": {"x": "y"}}


def refusal(direct: Direct, *args: Any, **kwargs: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        direct.ask(*args, **kwargs)
    return caught.value


# ---- create ---------------------------------------------------------------------------------------


def test_create_fills_in_what_only_the_server_says(direct: Direct) -> None:
    sent = {
        "metadata": {
            "name": "a",
            "uid": "mine",
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "deletionTimestamp": "2020-01-01T00:00:00Z",
        }
    }
    made = direct.tree("create", "configmaps", body=sent)
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    metadata = made["metadata"]
    assert metadata.pop("uid") not in ("", "mine")
    assert metadata.pop("resourceVersion") == str(direct.store.version)
    assert metadata == {"name": "a", "namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z"}


def test_cluster_wide_objects_lose_their_namespace(direct: Direct) -> None:
    sent = {"metadata": {"name": "a", "namespace": "default"}}
    assert "namespace" not in direct.tree("create", "nodes", body=sent)["metadata"]
    assert "namespace" not in direct.tree("update", "nodes", "a", sent)["metadata"]


def test_generated_names_are_free_ones(direct: Direct) -> None:
    names = {
        direct.tree("create", "configmaps", body={"metadata": {"generateName": "g-"}})["metadata"]["name"]
        for _ in range(200)
    }
    assert len(names) == 200
    assert all(name.startswith("g-") and len(name) == 7 for name in names)


def test_whoever_gives_a_name_gets_no_other(direct: Direct) -> None:
    body = {"metadata": {"name": "g-1", "generateName": "g-"}}
    direct.tree("create", "configmaps", body=body)
    assert refusal(direct, "create", "configmaps", body=body).reason == "AlreadyExists"


@pytest.mark.parametrize(
    ("body", "code", "reason", "message"),
    [
        (b"{nope", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"),
        (b"[]", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"),
        (b"", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"),
        (
            {"kind": "Pod", "apiVersion": "v1"},
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Pod) to (core.ConfigMap): unknown conversion",
        ),
        (
            {"kind": "Zork", "apiVersion": "v1"},
            400,
            "BadRequest",
            'Zork in version "v1" cannot be handled as a ConfigMap: no kind "Zork" is registered for ',
        ),
        (
            {"metadata": {"name": "a", "labels": {"a": 1}}},
            400,
            "BadRequest",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into '
            "Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": {"name": "a", "namespace": "other"}},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"metadata": {}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            {"metadata": {"name": "A_b"}},
            422,
            "Invalid",
            'ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 ',
        ),
    ],
)
def test_what_cannot_be_created(direct: Direct, body: Any, code: int, reason: str, message: str) -> None:
    error = refusal(direct, "create", "configmaps", body=body)
    assert (error.code, error.reason) == (code, reason)
    assert error.message.startswith(message)


def test_a_name_is_taken_once(direct: Direct) -> None:
    direct.ask("create", "configmaps", body=CONFIG_MAP)
    error = refusal(direct, "create", "configmaps", body=CONFIG_MAP)
    assert (error.code, error.reason) == (409, "AlreadyExists")
    assert error.message == 'configmaps "a" already exists'
    assert error.details == {"name": "a", "kind": "configmaps"}


def test_nothing_is_created_in_a_namespace_that_is_not_there(direct: Direct) -> None:
    error = refusal(direct, "create", "configmaps", body=CONFIG_MAP, namespace="none")
    assert (error.code, error.message) == (404, 'namespaces "none" not found')


def test_a_dry_run_leaves_nothing(direct: Direct) -> None:
    version = direct.store.version
    made = direct.tree("create", "configmaps", body=CONFIG_MAP, dryRun="All")
    assert made["metadata"]["uid"]
    assert direct.store.version == version
    assert refusal(direct, "get", "configmaps", "a").code == 404


def test_unknown_fields_are_dropped_warned_of_or_refused(direct: Direct) -> None:
    body = pod("p", foo=1, containers=[{"name": "c", "image": "i", "bar": 2}])
    answer = direct.ask("create", "pods", body=body)
    assert isinstance(answer, ObjectAnswer)
    assert answer.warnings == ['unknown field "spec.foo"', 'unknown field "spec.containers[0].bar"']
    assert "foo" not in direct.tree("get", "pods", "p")["spec"]
    error = refusal(direct, "create", "pods", body=body, fieldValidation="Strict")
    assert error.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.foo", unknown field "spec.containers[0].bar"'
    )
    twice = b'{"metadata":{"name":"q"},"data":{"a":"1","a":"2"}}'
    error = refusal(direct, "create", "configmaps", body=twice, fieldValidation="Strict")
    assert error.message.endswith('strict decoding error: duplicate field "data.a"')


def test_quantities_and_times_are_written_canonically(direct: Direct) -> None:
    requests = {"cpu": "1000m", "memory": "1024Mi", "x.y/z": 3}
    resources = {"requests": requests, "limits": {"cpu": 1.5, "x.y/z": 3}}
    made = direct.tree(
        "create", "pods", body=pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    )
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi", "x.y/z": "3"},
        "limits": {"cpu": "1500m", "x.y/z": "3"},
    }
    spec = {"holderIdentity": "me", "renewTime": "2024-01-02T03:04:05.6+01:00"}
    lease = direct.tree(
        "create", "leases", body={"metadata": {"name": "l"}, "spec": spec}, group="coordination.k8s.io"
    )
    assert lease["spec"]["renewTime"] == "2024-01-02T02:04:05.600000Z"


# ---- update ---------------------------------------------------------------------------------------


def test_update_replaces_and_checks_the_version(direct: Direct) -> None:
    made = direct.tree("create", "configmaps", body=CONFIG_MAP)
    changed = direct.tree("update", "configmaps", "a", {**made, "data": {"x": "z"}})
    assert changed["data"] == {"x": "z"}
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    error = refusal(direct, "update", "configmaps", "a", {**made, "data": {"x": "w"}})
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your '
        "changes to the latest version and try again"
    )
    without = {"metadata": {"name": "a"}, "data": {"x": "v"}}
    assert direct.tree("update", "configmaps", "a", without)["data"] == {"x": "v"}


def test_an_update_that_changes_nothing_makes_no_version(direct: Direct) -> None:
    made = direct.tree("create", "configmaps", body=CONFIG_MAP)
    assert direct.tree("update", "configmaps", "a", made) == made


def test_update_of_what_is_not_there(direct: Direct) -> None:
    assert refusal(direct, "update", "configmaps", "a", CONFIG_MAP).code == 404
    lease = {"metadata": {"name": "l"}, "spec": {}}
    answer = direct.ask("update", "leases", "l", lease, group="coordination.k8s.io")
    assert isinstance(answer, ObjectAnswer)
    assert answer.code == 201
    error = refusal(direct, "update", "leases", "l", lease, group="coordination.k8s.io")
    assert error.message == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


def test_names_must_agree(direct: Direct) -> None:
    direct.ask("create", "configmaps", body=CONFIG_MAP)
    error = refusal(direct, "update", "configmaps", "a", {"metadata": {"name": "b"}})
    assert error.message == "the name of the object (b) does not match the name on the URL (a)"
    other = {"metadata": {"name": "a", "uid": "other"}}
    assert refusal(direct, "update", "configmaps", "a", other).reason == "Conflict"


def test_spec_and_status_are_written_apart(direct: Direct) -> None:
    made = direct.tree("create", "pods", body={**pod("p"), "status": {"phase": "Running"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1

    wanted = {**made, "status": {**made["status"], "phase": "Running"}, "spec": {}}
    changed = direct.tree("update", "pods", "p", wanted, subresource="status")
    assert changed["status"]["phase"] == "Running"
    assert changed["spec"] == made["spec"]
    assert changed["metadata"]["generation"] == 1

    spec = {**changed["spec"], "activeDeadlineSeconds": 5}
    changed = direct.tree("update", "pods", "p", {**changed, "spec": spec, "status": {}})
    assert changed["status"]["phase"] == "Running"
    assert changed["metadata"]["generation"] == 2


def test_merge_patch(direct: Direct) -> None:
    direct.ask("create", "configmaps", body={"metadata": {"name": "a"}, "data": {"x": "y", "z": "1"}})
    patch = {"metadata": {"labels": {"l": "v"}}, "data": {"x": None}}
    changed = direct.tree("patch", "configmaps", "a", patch, content_type="application/merge-patch+json")
    assert changed["data"] == {"z": "1"}
    assert changed["metadata"]["labels"] == {"l": "v"}


# ---- delete ---------------------------------------------------------------------------------------


def test_delete_answers_with_a_status_or_the_object(direct: Direct) -> None:
    made = direct.tree("create", "configmaps", body=CONFIG_MAP)
    assert direct.tree("delete", "configmaps", "a") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    direct.ask("create", "serviceaccounts", body={"metadata": {"name": "s"}})
    assert direct.tree("delete", "serviceaccounts", "s")["kind"] == "ServiceAccount"


def test_preconditions(direct: Direct) -> None:
    made = direct.tree("create", "configmaps", body=CONFIG_MAP)
    error = refusal(direct, "delete", "configmaps", "a", {"preconditions": {"uid": "x"}})
    assert (error.code, error.reason) == (409, "Conflict")
    assert "the UID in the precondition (x) does not match" in error.message
    version = {"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    direct.ask("delete", "configmaps", "a", version)
    assert refusal(direct, "get", "configmaps", "a").code == 404


def test_finalizers_hold_an_object_until_they_are_gone(direct: Direct) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["x.y/z"]}}
    direct.ask("create", "configmaps", body=body)
    held = direct.tree("delete", "configmaps", "a")
    assert held["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    added = {**held, "metadata": {**held["metadata"], "finalizers": ["x.y/z", "n.e/w"]}}
    assert "no new finalizers can be added" in refusal(direct, "update", "configmaps", "a", added).message
    freed = {**held, "metadata": {**held["metadata"], "finalizers": []}}
    direct.ask("update", "configmaps", "a", freed)
    assert refusal(direct, "get", "configmaps", "a").code == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_policies_are_left_to_the_garbage_collector(direct: Direct, policy: str, finalizer: str) -> None:
    direct.ask("create", "configmaps", body=CONFIG_MAP)
    held = direct.tree("delete", "configmaps", "a", propagationPolicy=policy)
    assert held["metadata"]["finalizers"] == [finalizer]


def test_pods_on_nodes_get_their_grace(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("p", nodeName="n", terminationGracePeriodSeconds=30))
    gone = direct.tree("delete", "pods", "p")
    assert gone["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:30Z"
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
    assert gone["metadata"]["generation"] == 2
    assert direct.tree("delete", "pods", "p", gracePeriodSeconds="50")["metadata"] == gone["metadata"]
    sooner = direct.tree("delete", "pods", "p", gracePeriodSeconds="5")
    assert sooner["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:05Z"
    assert sooner["metadata"]["generation"] == 2
    direct.ask("delete", "pods", "p", gracePeriodSeconds="0")
    assert refusal(direct, "get", "pods", "p").code == 404


def test_a_grace_of_ages_ends_with_the_calendar(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("p", nodeName="n", terminationGracePeriodSeconds=2**63 - 1))
    gone = direct.tree("delete", "pods", "p")
    assert gone["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    sooner = direct.tree("delete", "pods", "p", gracePeriodSeconds="5")
    assert sooner["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"


def test_pods_that_run_nowhere_go_at_once(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("p", terminationGracePeriodSeconds=30))
    assert direct.tree("delete", "pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 0
    assert refusal(direct, "get", "pods", "p").code == 404


def test_namespaces_wait_to_be_finalized(direct: Direct) -> None:
    direct.ask("create", "namespaces", body={"metadata": {"name": "n"}})
    held = direct.tree("delete", "namespaces", "n")
    assert held["status"]["phase"] == "Terminating"
    assert direct.tree("delete", "namespaces", "n") == held
    error = refusal(direct, "create", "configmaps", body=CONFIG_MAP, namespace="n")
    assert (error.code, error.details["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    direct.ask("update", "namespaces", "n", {"metadata": {"name": "n"}, "spec": {}}, subresource="finalize")
    assert refusal(direct, "get", "namespaces", "n").code == 404
    error = refusal(direct, "delete", "namespaces", "default")
    assert error.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_deletecollection_takes_what_a_selector_selects(direct: Direct) -> None:
    for name in "abc":
        labels = {"keep": "yes"} if name == "b" else {}
        direct.ask("create", "configmaps", body={"metadata": {"name": name, "labels": labels}})
    gone = direct.tree("deletecollection", "configmaps", labelSelector="!keep")
    assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "c"]
    left = direct.tree("list", "configmaps")
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


def test_others_may_write_while_a_collection_is_deleted(direct: Direct) -> None:
    for name in "abc":
        direct.ask("create", "configmaps", body={"metadata": {"name": name}})
    resource = direct.api.registry.find("", "v1", "configmaps")
    assert resource is not None
    answer, deletions = begin_deletion(Request(direct.api, "deletecollection", resource, "default", "", USER))
    next(deletions)
    direct.ask("delete", "configmaps", "b")
    direct.ask("create", "configmaps", body={"metadata": {"name": "d"}})
    assert len(list(deletions)) == 2
    assert [record.name for record in answer.listing.records] == ["a", "b", "c"]
    assert direct.api.store.table("configmaps").keys("default") == ["default/d"]
