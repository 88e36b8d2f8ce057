"""The pods that controllers make of workloads at first, for manifests that are scheduled without a cluster.

Names are numbered where a cluster would draw them, so that runs repeat. What the manifests hold already, as
those do that were taken from a cluster, is not made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mooring.api.complaints import malformed
from mooring.api.decode import from_dict, strip_nulls, validate, with_namespace
from mooring.api.defaults import identified
from mooring.api.errors import MISSING, MalformedObject, ObjectError
from mooring.api.jobs import Job
from mooring.api.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    ApiResource,
)
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Node, Pod
from mooring.api.workloads import DaemonSet, Deployment, Replicas, ReplicationController, StatefulSet
from mooring.sandbox.controllers.daemon_pods import Moulds as DaemonMoulds
from mooring.sandbox.controllers.daemon_pods import Placement, target_of
from mooring.sandbox.controllers.deployment_history import replica_set_body
from mooring.sandbox.controllers.job_pods import Moulds as JobMoulds
from mooring.sandbox.controllers.owning import controller_reference, kind_of
from mooring.sandbox.controllers.revisions import first_hash, first_revision
from mooring.sandbox.controllers.stateful_claims import claim_name, claim_of
from mooring.sandbox.controllers.stateful_pods import member_of
from mooring.sandbox.controllers.templates import pod_of

_RESOURCES: tuple[ApiResource[Any], ...] = (
    DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, DAEMON_SETS, JOBS,
)  # fmt: skip
_BY_KIND = {(each.api_version, kind_of(each)): each for each in _RESOURCES}


def is_workload(tree: Tree) -> bool:
    """Whether controllers make pods of it."""
    return (str(tree.get("apiVersion")), str(tree.get("kind"))) in _BY_KIND


def workload_of(tree: Tree) -> KubeObject:
    """A workload as its controller reads it. Raises MalformedObject."""
    kind, stripped = tree["kind"], strip_nulls(with_namespace(tree))
    try:
        workload: KubeObject = msgspec.convert(stripped, _BY_KIND[tree["apiVersion"], kind].model)
    except msgspec.ValidationError as error:
        raise malformed(kind, stripped, str(error)) from None
    if not workload.name:
        raise MalformedObject(kind, "", "metadata.name", MISSING, "a name")
    workload = identified(workload, namespaced=True)
    _check_templates(workload, stripped.get("spec", {}))
    return workload


def _check_templates(workload: KubeObject, spec: Tree) -> None:
    """Read what others are made of as they will be. Raises MalformedObject."""
    template = spec.get("template", {})
    metadata = template.get("metadata", {})
    if isinstance(metadata, dict):
        metadata = {**metadata, "name": workload.name}
    _check(workload, "spec.template", {**template, "metadata": metadata}, "Pod")
    for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
        _check(workload, f"spec.volumeClaimTemplates[{index}]", claim, "PersistentVolumeClaim")


def _check(workload: KubeObject, path: str, tree: Tree, kind: str) -> None:
    try:
        validate(from_dict({**tree, "apiVersion": "v1", "kind": kind}))
    except MalformedObject as error:
        field = f"{path}.{error.field}"
        raise MalformedObject(workload.kind, workload.key, field, error.found, error.expected) from None


MOST_PODS = 150_000
"""Pods of one workload that are created in memory."""


class FirstPods:
    """Makes what is missing of workloads' pods, where some objects are there already."""

    def __init__(self, there: Iterable[KubeObject]) -> None:
        self._nodes: list[Node] = []
        self._names: set[tuple[str, str]] = set()
        self._controlled: dict[tuple[str, str, str], list[KubeObject]] = defaultdict(list)
        for obj in there:
            self._names.add((obj.kind, obj.key))
            owner = obj.metadata.controller()
            if owner is not None and not (isinstance(obj, Pod) and obj.finished):
                self._controlled[owner.kind, obj.namespace, owner.name].append(obj)
            if isinstance(obj, Node):
                self._nodes.append(obj)

    def of(self, workload: KubeObject) -> Iterator[Tree]:
        """The pods, and what comes with them. Raises ObjectError."""
        too_many = ObjectError(workload.kind, workload.key, f"needs more than {MOST_PODS:,} pods")
        if isinstance(workload, Deployment | Replicas | StatefulSet) and workload.spec.replicas > MOST_PODS:
            raise too_many
        if isinstance(workload, Deployment):
            bodies = self._of_deployment(workload)
        elif isinstance(workload, Replicas):
            bodies = self._of_replicas(workload)
        elif isinstance(workload, StatefulSet):
            bodies = self._of_stateful_set(workload)
        elif isinstance(workload, DaemonSet):
            bodies = self._of_daemon_set(workload)
        else:
            assert isinstance(workload, Job)
            bodies = self._of_job(workload)
        for count, body in enumerate(bodies):
            if count == MOST_PODS:
                raise too_many
            metadata = {"namespace": workload.namespace, **body["metadata"]}
            metadata.pop("generateName", None)
            yield {**body, "metadata": metadata}

    def _there(self, owner: KubeObject) -> list[KubeObject]:
        return self._controlled[owner.kind, owner.namespace, owner.name]

    def _of_deployment(self, deployment: Deployment) -> Iterator[Tree]:
        if self._there(deployment):
            return  # its ReplicaSets are there, and have pods made of them
        if deployment.spec.selector is None:
            expected = "the labels by which it finds its pods"
            raise MalformedObject("Deployment", deployment.key, "spec.selector", MISSING, expected)
        reference = controller_reference(DEPLOYMENTS, deployment)
        body = replica_set_body(deployment, deployment.spec.replicas, 1, reference)
        body["metadata"]["namespace"] = deployment.namespace
        yield body
        yield from self.of(workload_of(msgspec.to_builtins(body)))

    def _of_replicas(self, owner: Replicas) -> Iterator[Tree]:
        older = isinstance(owner, ReplicationController)
        reference = controller_reference(REPLICATION_CONTROLLERS if older else REPLICA_SETS, owner)
        for number in range(len(self._there(owner)), owner.spec.replicas):
            yield _named(pod_of(owner.spec.template, owner.name, reference), number)

    def _of_stateful_set(self, set: StatefulSet) -> Iterator[Tree]:
        revision, start = first_revision(set), set.spec.ordinals.start
        for ordinal in range(start, start + set.spec.replicas):
            for template in set.spec.volume_claim_templates:
                name = claim_name(set, template, ordinal)
                if ("PersistentVolumeClaim", f"{set.namespace}/{name}") not in self._names:
                    yield claim_of(set, template, name)
            if ("Pod", f"{set.namespace}/{set.name}-{ordinal}") not in self._names:
                yield member_of(set, revision, ordinal)

    def _of_daemon_set(self, set: DaemonSet) -> Iterator[Tree]:
        placement, moulds = Placement(set), DaemonMoulds(set, first_hash(set))
        served = {target_of(pod) for pod in self._there(set) if isinstance(pod, Pod)}
        for node in self._nodes:
            if node.name not in served and placement.wants(node)[0]:
                yield _named(moulds.body(node.name), node.name)

    def _of_job(self, job: Job) -> Iterator[Tree]:
        spec, moulds = job.spec, JobMoulds(job)
        left = spec.parallelism if spec.completions is None else spec.completions - job.status.succeeded
        if spec.suspend or job.finished is not None:
            return
        for number in range(len(self._there(job)), min(spec.parallelism, left)):
            body = moulds.body_of(number, None) if job.indexed else moulds.body()
            yield _named(body, "" if job.indexed else number)  # an index is a part of the name anyway


def _named(body: Tree, suffix: int | str) -> Tree:
    """A pod with a name for which a cluster would have drawn letters."""
    body["metadata"]["name"] = f"{body['metadata']['generateName']}{suffix}".rstrip("-")
    return body
