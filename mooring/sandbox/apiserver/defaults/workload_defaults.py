"""Kinds that create pods: apps, batch, replication controllers, pod templates."""

from __future__ import annotations

from mooring.sandbox.apiserver.defaults.containers import round_up
from mooring.sandbox.apiserver.defaults.pod_defaults import default_pod_template
from mooring.sandbox.apiserver.objects import Tree

_INT32_MAX = 2**31 - 1


def default_deployment(obj: Tree) -> None:
    spec = obj["spec"]
    default_pod_template(spec)
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replica_set(obj: Tree) -> None:
    default_pod_template(obj["spec"])
    obj["spec"].setdefault("replicas", 1)


def default_daemon_set(obj: Tree) -> None:
    spec = obj["spec"]
    default_pod_template(spec)
    strategy = spec["updateStrategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def default_stateful_set(obj: Tree) -> None:
    spec = obj["spec"]
    default_pod_template(spec)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        claim["spec"].setdefault("volumeMode", "Filesystem")
        round_up(claim["spec"]["resources"])
        claim["status"].setdefault("phase", "Pending")


def default_replication_controller(obj: Tree) -> None:
    spec = obj["spec"]
    default_pod_template(spec)
    spec.setdefault("replicas", 1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


def default_job(obj: Tree) -> None:
    spec = obj["spec"]
    default_pod_template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _INT32_MAX if "backoffLimitPerIndex" in spec else 6)
    labels = spec["template"]["metadata"].get("labels")
    if labels:  # one map for both: the job gets the labels that the server adds to its pods
        obj["metadata"].setdefault("labels", labels)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _failure_policy(spec)


def _failure_policy(spec: Tree) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def default_cron_job(obj: Tree) -> None:
    spec = obj["spec"]
    template = spec["jobTemplate"]["spec"]
    default_pod_template(template)
    _failure_policy(template)
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
