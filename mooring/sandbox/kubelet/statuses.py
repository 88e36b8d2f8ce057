"""The status of a pod as kubelet writes it, in each part of its life: JSON merge patches."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from mooring.api.meta import Condition, Tree
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.sandbox.kubelet.container_life import RUNNING, WAITING, ContainerLife, Ended
from mooring.sandbox.kubelet.containers import RESTARTING_ALL, PodLife
from mooring.sandbox.kubelet.pod_totals import amounts, pod_level
from mooring.sandbox.programs.images import UNKNOWN_IMAGE, find_image
from mooring.sandbox.programs.rights import find_user
from mooring.sandbox.programs.user import User

NOT_READY = "ContainersNotReady"
RESIZE_PENDING, RESIZE_IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
RESTARTING = "AllContainersRestarting"


def living(pod: Pod, life: PodLife, host_ip: str, pod_ip: str, now: float) -> Tree:
    """The status of a pod that its node has accepted, until it is over. Without an address, nothing was
    started."""
    text = format_time(now)
    status: Tree = {
        "observedGeneration": pod.metadata.generation,
        "phase": life.phase,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
    }
    if pod_ip:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    status["startTime"] = pod.status.start_time or text
    unready = [one.name for one in life.all if not one.is_ready(now) and (one.is_sidecar or not one.is_init)]
    ready = _unready(unready) if unready else {"Ready": readiness(pod), "ContainersReady": "True"}
    started = "True" if pod_ip else "False"
    initialized = _initialized(life, now)
    if (before := _condition(pod, "Initialized")) is not None and before.status == "True":
        initialized = "True"  # it stays so while all containers restart
    conditions = {"PodReadyToStartContainers": started, "Initialized": initialized, **ready}
    conditions["PodScheduled"] = "True"
    if life.run is not None and life.run.may_restart_all:
        conditions[RESTARTING] = _restarting(life, now)
    if life.allocation.pending is not None:
        conditions[RESIZE_PENDING] = ("True", *life.allocation.pending)
    if life.allocation.resize is not None:
        error = life.allocation.resize.error
        conditions[RESIZE_IN_PROGRESS] = ("True", "Error" if error else "", error)
    status["conditions"] = _conditions(pod, text, conditions)
    allocated, actuated = life.allocation.allocated_pod(life.pod), life.allocation.actuated_pod(life.pod)
    return status | pod_level(allocated, actuated, runs=life.phase == "Running") | _containers(pod, life, now)


def ended(pod: Pod, life: PodLife, now: float, reason: str = "", message: str = "") -> Tree:
    """The status of a pod that is over."""
    phase = "Failed" if reason else life.phase
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    conditions: dict[str, _Verdict] = {
        "PodReadyToStartContainers": "False",
        "Initialized": ("True", why, "") if phase == "Succeeded" else "True",
        "Ready": ("False", why, ""),
        "ContainersReady": ("False", why, ""),
    }
    if not life.initialized:
        conditions["Initialized"] = _initialized(life, now)
    if life.run is not None and life.run.may_restart_all:
        conditions[RESTARTING] = ("False", why, "")
    status: Tree = {"phase": phase, "conditions": _conditions(pod, format_time(now), conditions)}
    if reason:
        status |= {"reason": reason, "message": message}
    if any(one.ran for one in life.all):
        status |= _containers(pod, life, now)
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


def _initialized(life: PodLife, now: float) -> _Verdict:
    if life.initialized:
        return "True"
    incomplete = [
        one.name for one in life.inits if not (one.done or (one.is_sidecar and one.has_started(now)))
    ]
    names = " ".join(incomplete)
    return "False", "ContainersNotInitialized", f"containers with incomplete status: [{names}]"


def _restarting(life: PodLife, now: float) -> _Verdict:
    if any(one.reason == RESTARTING_ALL and one.due > now for one in life.all):
        return "True", "RestartAllContainersStarted", "container exited with restart policy rule"
    return "False"


def _unready(names: list[str]) -> dict[str, _Verdict]:
    verdict = ("False", NOT_READY, f"containers with unready status: [{' '.join(names)}]")
    return {"Ready": verdict, "ContainersReady": verdict}


def _conditions(pod: Pod, now: str, verdicts: dict[str, _Verdict]) -> list[Tree | Condition]:
    """All conditions of a pod; those whose status stays keep the time since when it is so. Without a verdict,
    a resize is no longer pending or in progress."""
    current = {one.type: one for one in pod.status.conditions}
    for type in {RESIZE_PENDING, RESIZE_IN_PROGRESS} - verdicts.keys():
        current.pop(type, None)
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


def _containers(pod: Pod, life: PodLife, now: float) -> Tree:
    statuses = {"containerStatuses": [_container(pod, life, one, now) for one in life.containers]}
    if life.inits:
        statuses["initContainerStatuses"] = [_container(pod, life, one, now) for one in life.inits]
    if life.ephemerals:
        statuses["ephemeralContainerStatuses"] = [_ephemeral(pod, life, one) for one in life.ephemerals]
    return statuses


def _container(pod: Pod, life: PodLife, one: ContainerLife, now: float) -> Tree:
    status: Tree = {
        "name": one.name,
        "image": one.image,
        "imageID": "",
        "ready": one.is_ready(now),
        "started": one.has_started(now),
        "restartCount": one.restarts,
        "state": _state(pod, life, one),
        "lastState": {},
        "resources": amounts(requests=one.resources.requests, limits=one.resources.limits),
        **amounts(allocatedResources=one.allocated.requests),
    }
    if one.ran:
        status["imageID"] = image_id(one.image)
        status["containerID"] = container_id(pod.uid, one.name, one.restarts)
        if one.spec is not None and life.run is not None and find_image(one.image) is not UNKNOWN_IMAGE:
            status["user"] = {"linux": _linux_user(find_user(one.spec, life.run.spec.security_context))}
    if one.last is not None:
        before = one.restarts if one.state == WAITING else one.restarts - 1
        status["lastState"] = _terminated(pod, one, before, one.last)
    return status


def _linux_user(user: User) -> Tree:
    return {"uid": user.uid, "gid": user.gid, "supplementalGroups": sorted({user.gid, *user.groups})}


def _ephemeral(pod: Pod, life: PodLife, one: ContainerLife) -> Tree:
    """The status of an ephemeral container, which is never ready and never restarted."""
    status = {**_container(pod, life, one, one.started), "ready": False, "started": False}
    del status["resources"]  # it has none of its own
    return status


def _state(pod: Pod, life: PodLife, one: ContainerLife) -> Tree:
    if one.state == RUNNING:
        return {"running": {"startedAt": format_time(one.started)}}
    if one.end is not None:
        return _terminated(pod, one, one.restarts, one.end)
    reason = one.reason or ("PodInitializing" if life.inits else "ContainerCreating")
    return {"waiting": {"reason": reason, "message": one.message} if one.message else {"reason": reason}}


def _terminated(pod: Pod, one: ContainerLife, restarts: int, end: Ended) -> Tree:
    state: Tree = {
        "exitCode": end.exit_code,
        "reason": end.reason or ("Completed" if end.exit_code == 0 else "Error"),
        "startedAt": format_time(end.started) if end.started else None,
        "finishedAt": format_time(end.finished) if end.finished else None,
        "containerID": container_id(pod.uid, one.name, restarts),
    }
    if end.message:
        state["message"] = end.message
    return {"terminated": state}


def container_id(uid: str, name: str, restarts: int) -> str:
    return "containerd://" + hashlib.sha256(f"{uid}/{name}/{restarts}".encode()).hexdigest()


@lru_cache(maxsize=4096)
def image_id(image: str) -> str:
    """An image by the digest of its content, which here is its name."""
    return f"{image.partition('@')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
