"""The status of a pod as kubelet writes it, in each part of its life: JSON merge patches."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from mooring.api.meta import Condition, Tree
from mooring.api.objects import Container, Pod

NOT_READY = "ContainersNotReady"
TERMINATED = 143
"""The exit code of a container that obeys SIGTERM."""


class Ended(NamedTuple):
    """How the containers ended."""

    exit_code: int
    started_at: str
    finished_at: str


def creating(pod: Pod, host_ip: str, now: str) -> Tree:
    """Accepted, and nothing runs yet."""
    reason = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    state = {"waiting": {"reason": reason}}
    return {
        "observedGeneration": pod.metadata.generation,
        "phase": "Pending",
        "startTime": now,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(
            pod, now, {"PodReadyToStartContainers": "False", "Initialized": "True", **_unready(pod)}
        ),
        "containerStatuses": [_container(pod, each, state, ready=False) for each in pod.spec.containers],
        **(
            {"initContainerStatuses": [_container(pod, each, state, ready=False) for each in inits]}
            if (inits := pod.spec.init_containers)
            else {}
        ),
    }


def running(pod: Pod, host_ip: str, pod_ip: str, now: str, restarts: int, last: Ended | None) -> Tree:
    """All containers run and are ready; after restarts `last` is how they ended before."""
    state = {"running": {"startedAt": now}}
    status: Tree = {
        "observedGeneration": pod.metadata.generation,
        "phase": "Running",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": pod.status.start_time or now,
        "conditions": _conditions(
            pod,
            now,
            {
                "PodReadyToStartContainers": "True",
                "Initialized": "True",
                "Ready": readiness(pod),
                "ContainersReady": "True",
            },
        ),
        "containerStatuses": [
            _container(pod, each, state, ready=True, restarts=restarts, last=last)
            for each in pod.spec.containers
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [_initialized(pod, each, now) for each in pod.spec.init_containers]
    return status


def crash_looping(pod: Pod, now: str, restarts: int, last: Ended, backoff: str) -> Tree:
    """The containers ended, and are to be started again after a while."""
    containers = []
    for each in pod.spec.containers:
        message = f"back-off {backoff} restarting failed container={each.name} pod={pod_text(pod)}"
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        containers.append(_container(pod, each, state, ready=False, restarts=restarts, last=last))
    return {"conditions": _conditions(pod, now, _unready(pod)), "containerStatuses": containers}


def ended(pod: Pod, now: str, restarts: int, end: Ended | None, reason: str = "", message: str = "") -> Tree:
    """The pod is at its end; None where its containers never ran."""
    succeeded = end is not None and end.exit_code == 0 and not reason
    why = "PodCompleted" if succeeded else "PodFailed"
    conditions: dict[str, _Verdict] = {
        "PodReadyToStartContainers": "False",
        "Initialized": ("True", why, "") if succeeded else "True",
        "Ready": ("False", why, ""),
        "ContainersReady": ("False", why, ""),
    }
    status: Tree = {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": _conditions(pod, now, conditions),
    }
    if reason:
        status |= {"reason": reason, "message": message}
    if end is None:
        return status
    status["containerStatuses"] = [
        _container(pod, each, _terminated(pod, each, restarts, end), ready=False, restarts=restarts)
        for each in pod.spec.containers
    ]
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    if sidecars:
        done = end._replace(exit_code=0)
        status["initContainerStatuses"] = [
            _container(pod, each, _terminated(pod, each, 0, done), ready=each not in sidecars)
            for each in pod.spec.init_containers
        ]
    return status


def rejected(pod: Pod, reason: str, message: str, now: str) -> Tree:
    """Kubelet admission refused the pod."""
    return {
        "observedGeneration": pod.metadata.generation,
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": now,
    }


def gated(pod: Pod, now: str) -> Tree:
    """Return the patch of the readiness of a running pod with readiness gates; empty if it is up to date."""
    ready, readiness_now = _condition(pod, "Ready"), readiness(pod)
    status, reason, message = _in_full(readiness_now)
    if ready is not None and (ready.status, ready.reason, ready.message) == (status, reason, message):
        return {}
    return {"conditions": _conditions(pod, now, {"Ready": readiness_now})}


def pod_text(pod: Pod) -> str:
    """As kubelet names pods."""
    return f"{pod.name}_{pod.namespace}({pod.uid})"


# ---- conditions

_Verdict = str | tuple[str, str, str]
"""The status of a condition, with reason and message where there are any."""


def readiness(pod: Pod) -> _Verdict:
    """Whether a pod all of whose containers are ready is ready."""
    if not pod.spec.readiness_gates:
        return "True"
    missing = []
    for gate in pod.spec.readiness_gates:
        type = gate.condition_type
        condition = _condition(pod, type)
        if condition is None:
            missing.append(f'corresponding condition of pod readiness gate "{type}" does not exist.')
        elif condition.status != "True":
            missing.append(f'the status of pod readiness gate "{type}" is not "True", but {condition.status}')
    return ("False", "ReadinessGatesNotReady", ", ".join(missing)) if missing else "True"


def _unready(pod: Pod) -> dict[str, _Verdict]:
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    names = " ".join(each.name for each in (*sidecars, *pod.spec.containers))
    verdict = ("False", NOT_READY, f"containers with unready status: [{names}]")
    return {"Ready": verdict, "ContainersReady": verdict}


def _conditions(pod: Pod, now: str, verdicts: dict[str, _Verdict]) -> list[Tree | Condition]:
    """All conditions of a pod; those whose status stays keep the time since when it is so."""
    current = {one.type: one for one in pod.status.conditions}
    conditions: list[Tree | Condition] = []
    for type, verdict in verdicts.items():
        before = current.pop(type, None)
        status, reason, message = _in_full(verdict)
        condition: Tree = {
            "type": type,
            "status": status,
            "observedGeneration": pod.metadata.generation,
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        if before is not None and before.status == status:
            condition["lastTransitionTime"] = before.last_transition_time or now
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        conditions.append(condition)
    conditions.extend(current.values())
    return conditions


def _in_full(verdict: _Verdict) -> tuple[str, str, str]:
    return (verdict, "", "") if isinstance(verdict, str) else verdict


def _condition(pod: Pod, type: str) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == type), None)


# ---- containers


def _container(
    pod: Pod,
    container: Container,
    state: Tree,
    *,
    ready: bool,
    restarts: int = 0,
    last: Ended | None = None,
) -> Tree:
    status: Tree = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
    if "waiting" not in state or last is not None:
        status["imageID"] = image_id(container.image)
        status["containerID"] = container_id(pod.uid, container.name, restarts)
    if last is not None:
        before = restarts if "waiting" in state else restarts - 1
        status["lastState"] = _terminated(pod, container, before, last)
    return status


def _initialized(pod: Pod, container: Container, now: str) -> Tree:
    """Init containers take no time; sidecars are among them, and stay."""
    if container.restart_policy == "Always":
        return _container(pod, container, {"running": {"startedAt": now}}, ready=True)
    done = Ended(0, now, now)
    return _container(pod, container, _terminated(pod, container, 0, done), ready=True)


def _terminated(pod: Pod, container: Container, restarts: int, end: Ended) -> Tree:
    return {
        "terminated": {
            "exitCode": end.exit_code,
            "reason": "Completed" if end.exit_code == 0 else "Error",
            "startedAt": end.started_at,
            "finishedAt": end.finished_at,
            "containerID": container_id(pod.uid, container.name, restarts),
        }
    }


def container_id(uid: str, name: str, restarts: int) -> str:
    return "containerd://" + hashlib.sha256(f"{uid}/{name}/{restarts}".encode()).hexdigest()


@lru_cache(maxsize=4096)
def image_id(image: str) -> str:
    """An image by the digest of its content, which here is its name."""
    return f"{image.partition('@')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
