"""Warnings about pods and their controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.sandbox.apiserver.objects import Tree, dig
from mooring.sandbox.apiserver.validation.names import dns_label
from mooring.sandbox.apiserver.validation.warnings.pods import template_warnings
from mooring.sandbox.apiserver.validation.warnings.storage import claim_spec_warnings

_MOST_COMPLETIONS: Final = 100_000
_MOST_PARALLELISM: Final = 10_000
_HOST_NAME: Final = "which can result in surprising behavior; a DNS label is recommended"

Warn = Callable[[Tree, Tree | None], Iterator[str]]


def pod_warnings(pod: Tree, old: Tree | None) -> Iterator[str]:
    """Warn about a new pod: kube-apiserver spends no time on updates of pods."""
    if old is None:
        yield from _name("the Pod's hostname", pod)
        yield from template_warnings(pod)


def controller_warnings(obj: Tree, old: Tree | None) -> Iterator[str]:
    """Warn about a Deployment, ReplicaSet or ReplicationController."""
    if old is None:
        yield from _name("Pod names and hostnames", obj)
    if is_changed(obj, old):
        yield from template_warnings(dig(obj, "spec", "template") or {}, "spec.template.")


def is_changed(obj: Tree, old: Tree | None) -> bool:
    """Whether a write changes what its author wants, and not only metadata."""
    return old is None or obj["metadata"].get("generation") != old["metadata"].get("generation")


def daemon_set_warnings(obj: Tree, old: Tree | None) -> Iterator[str]:
    template = dig(obj, "spec", "template") or {}
    if old is None or template != dig(old, "spec", "template"):
        yield from template_warnings(template, "spec.template.")


def pod_template_warnings(obj: Tree, old: Tree | None) -> Iterator[str]:
    yield from template_warnings(obj.get("template") or {}, "template.")


def stateful_set_warnings(obj: Tree, old: Tree | None) -> Iterator[str]:
    spec = obj.get("spec") or {}
    if is_changed(obj, old):
        yield from template_warnings(spec.get("template") or {}, "spec.template.")
    below = "" if old is None else ".Spec"
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from claim_spec_warnings(f"spec.volumeClaimTemplates[{index}]{below}", claim.get("spec") or {})
    if spec.get("revisionHistoryLimit", 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )


def job_warnings(obj: Tree, old: Tree | None) -> Iterator[str]:
    if old is None:
        yield from _name("Pod names and hostnames", obj)
    if is_changed(obj, old):
        yield from _job_spec("spec", obj.get("spec") or {})


def cron_job_warnings(obj: Tree, old: Tree | None) -> Iterator[str]:
    spec = obj.get("spec") or {}
    if old is None:
        yield from _name("Pod names and hostnames", obj)
    if is_changed(obj, old):
        yield from _job_spec("spec.jobTemplate.spec", dig(spec, "jobTemplate", "spec") or {})
    if old is not None and "TZ" in spec.get("schedule", ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


def _job_spec(path: str, spec: Tree) -> Iterator[str]:
    many = spec.get("completions", 0) > _MOST_COMPLETIONS and spec.get("parallelism", 0) > _MOST_PARALLELISM
    if many and spec.get("completionMode") == "Indexed":
        yield (
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher "
            "than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes "
            "fail"
        )
    yield from template_warnings(spec.get("template") or {}, f"{path}.template.")


def _name(use: str, obj: Tree) -> Iterator[str]:
    problems = dns_label(obj["metadata"].get("name", ""))
    if problems:
        yield f"metadata.name: this is used in {use}, {_HOST_NAME}: [{' '.join(problems)}]"
