"""binding, eviction, scale, log."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.times import format_time
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.verbs.request import ForwardError, PortsAnswer, ReplyAnswer, TextAnswer
from mooring.sandbox.network.messages import Reply
from tests.sandbox.apiserver.kit import Direct, pod

NODE = {"kind": "Node", "name": "n1"}


def bind(direct: Direct, name: str = "p", **binding: Any) -> Any:
    binding = {"target": NODE, **binding, "metadata": {"name": name, **binding.get("metadata", {})}}
    return direct.tree("create", "pods", name, binding, subresource="binding")


def refusal(act: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        act()
    return caught.value


def test_binding_assigns_the_node_once(direct: Direct) -> None:
    made = direct.tree("create", "pods", body=pod("p"))
    answer = bind(direct, metadata={"name": "p", "annotations": {"a": "b"}})
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
    bound = direct.tree("get", "pods", "p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert bound["metadata"]["generation"] == made["metadata"]["generation"]
    assert bound["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
    ]
    error = refusal(lambda: bind(direct, target={"kind": "Node", "name": "n2"}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    assert error.details == {"name": "p", "kind": "pods/binding"}


def test_bindings_that_cannot_be(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("p", schedulingGates=[{"name": "a.b/c"}]))
    assert refusal(lambda: bind(direct)).message.endswith("pod p has non-empty .spec.schedulingGates")
    assert refusal(lambda: bind(direct, "none")).message == 'pods "none" not found'
    for other in ("q", ""):
        error = refusal(lambda other=other: bind(direct, metadata={"name": other}))
        assert (error.code, error.message) == (400, "name in URL does not match name in Binding object")
    assert refusal(lambda: bind(direct, target={"kind": "Zork", "name": ""})).code == 422
    direct.ask("create", "pods", body=pod("q"))
    assert refusal(lambda: bind(direct, "q", metadata={"uid": "other"})).code == 409


def test_a_binding_may_name_its_pod_itself(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("p"))
    direct.ask("create", "bindings", body={"metadata": {"name": "p"}, "target": NODE})
    assert direct.tree("get", "pods", "p")["spec"]["nodeName"] == "n1"


def test_scale_is_one_shape_for_all(direct: Direct) -> None:
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
        "template": {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": pod("")["spec"]},
    }
    body = {"metadata": {"name": "d"}, "spec": spec}
    made = direct.tree("create", "deployments", body=body, group="apps")
    where: Any = {"group": "apps", "subresource": "scale"}
    scale = direct.tree("get", "deployments", "d", **where)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "a=b,c"}

    wanted = {"metadata": {"name": "d"}, "spec": {"replicas": 3}}
    assert direct.tree("update", "deployments", "d", wanted, **where)["spec"] == {"replicas": 3}
    patch = {"spec": {"replicas": 0}}
    media = "application/merge-patch+json"
    assert direct.tree("patch", "deployments", "d", patch, content_type=media, **where)["spec"] == {}
    found = direct.tree("get", "deployments", "d", group="apps")
    assert found["spec"]["replicas"] == 0
    assert found["metadata"]["generation"] == 3
    stale = {"metadata": {"name": "d", "resourceVersion": made["metadata"]["resourceVersion"]}}
    assert refusal(lambda: direct.ask("update", "deployments", "d", stale, **where)).code == 409


def budget(direct: Direct, **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    body = {"metadata": {"name": "b"}, "spec": spec}
    made = direct.tree("create", "poddisruptionbudgets", body=body, group="policy")
    made["status"] = {"observedGeneration": 1, "expectedPods": 2, **status}
    direct.ask("update", "poddisruptionbudgets", "b", made, group="policy", subresource="status")


def running_pod(direct: Direct, name: str) -> None:
    body = pod(name, nodeName="n1", terminationGracePeriodSeconds=30)
    body["metadata"]["labels"] = {"app": "web"}
    made = direct.tree("create", "pods", body=body)
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    direct.ask("update", "pods", name, made, subresource="status")


def evict(direct: Direct, name: str) -> Any:
    body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}}
    return direct.tree("create", "pods", name, body, subresource="eviction")


def test_evictions_are_counted_by_the_budget(direct: Direct) -> None:
    budget(direct, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    running_pod(direct, "p")
    running_pod(direct, "q")
    assert evict(direct, "p")["status"] == "Success"
    gone = direct.tree("get", "pods", "p")
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
    assert gone["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    status = direct.tree("get", "poddisruptionbudgets", "b", group="policy")["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]

    error = refusal(lambda: evict(direct, "q"))
    assert (error.code, error.reason) == (429, "TooManyRequests")
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert error.details["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 2 currently",
        }
    ]


def test_evictions_that_no_budget_minds(direct: Direct) -> None:
    budget(direct, disruptionsAllowed=0, currentHealthy=2, desiredHealthy=2)
    pending = pod("p")
    pending["metadata"]["labels"] = {"app": "web"}
    direct.ask("create", "pods", body=pending)
    evict(direct, "p")  # does not run, so nothing is disrupted
    assert refusal(lambda: direct.ask("get", "pods", "p")).code == 404
    direct.ask("create", "pods", body=pod("other", nodeName="n1"))
    evict(direct, "other")
    assert refusal(lambda: evict(direct, "none")).code == 404


def logging_pod(direct: Direct, name: str, *command: str, **spec: object) -> None:
    """Create a pod that has been running for a minute."""
    containers = [{"name": "c", "image": "busybox", "command": list(command)}]
    direct.ask("create", "pods", body=pod(name, nodeName="n1", containers=containers, **spec))
    started = format_time(direct.api.clock() - 60)
    status = {"containerStatuses": [{"name": "c", "state": {"running": {"startedAt": started}}}]}
    merge = "application/merge-patch+json"
    direct.ask("patch", "pods", name, {"status": status}, subresource="status", content_type=merge)


def read_log(direct: Direct, name: str, **params: str) -> str:
    answer = direct.ask("get", "pods", name, subresource="log", **params)
    assert isinstance(answer, TextAnswer)
    return answer.text


def test_there_are_no_logs_of_unknown_programs_and_that_is_said(direct: Direct) -> None:
    logging_pod(direct, "p", "python", "app.py")
    assert read_log(direct, "p").startswith("there are no logs")


def test_the_log_has_what_a_command_has_printed_by_now(direct: Direct) -> None:
    logging_pod(direct, "p", "sh", "-c", "echo one; echo two; sleep 30; echo three; sleep 90; echo late")
    assert read_log(direct, "p") == "one\ntwo\nthree\n"
    assert read_log(direct, "p", tailLines="1", container="c") == "three\n"
    assert read_log(direct, "p", limitBytes="5") == "one\nt"
    assert read_log(direct, "p", sinceSeconds="40") == "three\n"
    assert read_log(direct, "p", timestamps="true", tailLines="1").endswith("Z three\n")


def test_the_log_is_that_of_the_only_container(direct: Direct) -> None:
    inits = [{"name": "i", "image": "i"}]
    logging_pod(direct, "p", "echo", "one", initContainers=inits)
    assert read_log(direct, "p") == "one\n"


def test_logs_that_do_not_exist(direct: Direct) -> None:
    containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    inits = [{"name": "i", "image": "i"}]
    direct.ask("create", "pods", body=pod("p", nodeName="n1", containers=containers, initContainers=inits))
    logging_pod(direct, "q", "sleep", "5")
    messages = [
        refusal(lambda: read_log(direct, "p")).message,
        refusal(lambda: read_log(direct, "p", container="c")).message,
        refusal(lambda: read_log(direct, "p", container="a")).message,
        refusal(lambda: read_log(direct, "q", previous="true")).message,
    ]
    assert messages == [
        "a container name must be specified for pod p, choose one of: [i a b]",
        "container c is not valid for pod p",
        'container "a" in pod "p" is waiting to start: ContainerCreating',
        'previous terminated container "c" in pod "q" not found',
    ]


def test_nothing_runs_that_one_could_connect_to(direct: Direct) -> None:
    direct.ask("create", "pods", body=pod("waiting"))
    direct.ask("create", "pods", body=pod("p", nodeName="n1"))
    assert "container" in refusal(lambda: direct.ask("get", "pods", "p", subresource="exec")).message
    for part in ("attach", "portforward"):
        early = refusal(lambda part=part: direct.ask("create", "pods", "waiting", subresource=part))
        assert (early.code, early.message) == (400, "pod waiting does not have a host assigned")
    late = direct.ask("get", "pods", "p", subresource="attach", stdout="true")
    assert late == ReplyAnswer(Reply(500, b"container c not found in pod p_default"))
    ports = direct.ask("get", "pods", "p", subresource="portforward")
    assert isinstance(ports, PortsAnswer)
    assert not ports.is_running()
    with pytest.raises(ForwardError, match=r"error forwarding port 80 .* failed to find sandbox"):
        ports.open(80)
    assert direct.ask("get", "pods", "waiting", subresource="log") == TextAnswer("")


def test_events_are_one_kind_under_two_names(direct: Direct) -> None:
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Scheduled",
        "note": "Successfully assigned",
        "type": "Normal",
        "action": "Binding",
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "x",
    }
    made = direct.tree("create", "events", body=event, group="events.k8s.io")
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "Successfully assigned")
    core = direct.tree("list", "events", fieldSelector="involvedObject.name=p,reason=Scheduled")["items"][0]
    assert core["message"] == "Successfully assigned"
    assert core["involvedObject"]["kind"] == "Pod"
    assert core["reportingComponent"] == "default-scheduler"
    again = direct.tree("list", "events", group="events.k8s.io", fieldSelector="regarding.name=p")
    assert [item["note"] for item in again["items"]] == ["Successfully assigned"]


def test_autoscalers_of_both_versions(direct: Direct) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70, "scaleTargetRef": target}
    body = {"metadata": {"name": "h"}, "spec": spec}
    made = direct.tree("create", "horizontalpodautoscalers", body=body, group="autoscaling")
    assert made["spec"]["targetCPUUtilizationPercentage"] == 70
    newer = direct.tree("get", "horizontalpodautoscalers", "h", group="autoscaling", version="v2")
    assert newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
