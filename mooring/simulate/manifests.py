"""Manifests as a run at depth `core` takes them: objects, the pods of workloads, and Jobs and CronJobs that
create pods as time passes. What has no effect at this depth is reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.complaints import key_of, malformed
from mooring.api.decode import from_dict, load_trees, read_trees, strip_nulls, with_namespace
from mooring.api.errors import ObjectError
from mooring.api.jobs import CronJob, Job
from mooring.api.kinds import CRON_JOBS, JOBS, ApiResource
from mooring.api.meta import KubeObject, Tree
from mooring.api.objects import Pod
from mooring.api.times import format_time
from mooring.config.findings import Finding
from mooring.sandbox.controllers.cron_starts import UnclearScheduleError, find_due
from mooring.sandbox.controllers.first_pods import MOST_PODS, FirstPods, is_workload, workload_of
from mooring.sandbox.controllers.job_pods import Moulds as JobMoulds
from mooring.sandbox.controllers.owning import kind_of
from mooring.sandbox.kubelet.configuration import ConfigMap, Secret
from mooring.sandbox.kubelet.scripts import RUN_TIME
from mooring.sandbox.programs.sources import Data
from mooring.simulate.cron_jobs import CoreCronJob
from mooring.simulate.engine import START
from mooring.simulate.jobs import CoreJob
from mooring.simulate.lives import Configuration, Life, life_of
from mooring.simulate.templates import read_texts, template_of

Source = tuple[Any, str]
"""A tree, and the file it is from."""

Workload = tuple[str, str, str]
"""File, kind and key."""

USE_CLUSTER = "set depth: cluster"
WITHOUT_EFFECT = frozenset(
    ("HorizontalPodAutoscaler", "LimitRange", "MutatingAdmissionPolicyBinding", "ResourceQuota",
     "ValidatingAdmissionPolicyBinding")
)  # fmt: skip
"""Kinds that change which pods there are, by controllers or an API server."""
JOB_FIELDS = ("backoffLimitPerIndex", "podFailurePolicy", "successPolicy")
"""Fields of a Job that decide when it ends, and are not followed."""


class Contents(msgspec.Struct):
    """What manifests hold; `warnings` say what has no effect at depth `core`. `made` has the names of the
    pods that workloads of other kinds than Job have from the start."""

    objects: list[KubeObject]
    warnings: list[Finding]
    made: dict[Workload, frozenset[str]]


def read_contents(path: Path) -> Contents:
    """Read the manifests of a file or directory. Raises ValueError."""
    return contents_of(list(read_trees(read_texts(path))))


def contents_of(trees: list[Source]) -> Contents:
    """Read manifests. Raises ValueError."""
    return _Reading(trees).contents()


def warn_of_changes(in_order: Iterable[Contents]) -> Iterator[Finding]:
    """What is without effect because a workload was there before: only pods that are missing are created."""
    there: dict[tuple[str, str], frozenset[str]] = {}
    for contents in in_order:
        for (origin, kind, key), pods in contents.made.items():
            if there.get((kind, key), pods) - pods:
                message = "was changed, but depth core neither updates nor removes pods"
                yield Finding(message, f"{kind} {key}", origin, hint=USE_CLUSTER)
            there[kind, key] = pods


def warn_of_template(trees: Iterable[Source]) -> list[Finding]:
    """What of the template of a generated workload has no effect."""
    warnings = []
    for tree, origin in trees:
        spec, hint = tree.get("spec") or {}, "list it in workload: [{manifests: FILE}]"
        if _is_a(tree, CRON_JOBS):
            message = "has no effect in a template"
        elif _is_a(tree, JOBS) and (spec.get("completions") or 0) > (spec.get("parallelism") or 1):
            message = "only as many pods arrive as run in parallel: completions has no effect in a template"
        else:
            continue
        warnings.append(Finding(message, f"{tree['kind']} {key_of(with_namespace(tree))}", origin, hint=hint))
    return warnings


class _Reading:
    def __init__(self, trees: list[Source]) -> None:
        self._trees = trees
        self._warnings: dict[Finding, None] = {}
        self._configurations: dict[str, Configuration] = {}  # by namespace

    @cached_property
    def _mentions_job_labels(self) -> bool:
        """Whether a selector may need the labels of Jobs. Pods with labels of their own take longer to
        schedule, for they are a shape of their own."""
        text = str(self._trees)
        return "job-name" in text or "controller-uid" in text

    def contents(self) -> Contents:
        manifests = load_trees(self._trees)
        _raise(manifests.problems)
        first, made = FirstPods(manifests.objects), list[Source]()
        controlled: list[KubeObject] = []
        names: dict[Workload, frozenset[str]] = {}
        for tree, origin in self._trees:
            if _is_a(tree, CRON_JOBS):
                controlled.append(self._cron_job(tree, origin))
            elif _is_a(tree, JOBS):
                job = _workload(tree, origin)
                assert isinstance(job, Job)
                controlled.append(self._job(job, tree, origin))
            elif is_workload(tree):
                workload = _workload(tree, origin)
                bodies = list(first.of(workload))
                made += [
                    (self._with_life(body, origin, workload.kind, workload.name), origin) for body in bodies
                ]
                names[origin, workload.kind, workload.key] = frozenset(
                    body["metadata"]["name"] for body in bodies
                )
        for ignored in manifests.ignored:
            if ignored.kind in WITHOUT_EFFECT:
                self._warn(ignored.source, ignored.kind, ignored.key, "has no effect at depth core")
        alive = [(self._with_life(tree, origin, "Pod"), origin) for tree, origin in self._trees]
        manifests = load_trees([*alive, *made])
        _raise(manifests.problems)
        # Jobs come first: they adopt the pods of theirs that are there.
        return Contents(controlled + manifests.objects, list(self._warnings), names)

    def _warn(self, origin: str, kind: str, key: str, message: str, hint: str = USE_CLUSTER) -> None:
        self._warnings[Finding(message, f"{kind} {key}", origin, hint=hint)] = None

    # ---- pods

    def _with_life(self, tree: Tree, origin: str, kind: str, name: str = "") -> Tree:
        """A pod with the annotation of its run time, if it ends; other objects as they are. `kind` and `name`
        are those of the object that the pod comes from."""
        if tree["kind"] != "Pod":
            return tree
        spec = tree.get("spec") or {}
        if spec.get("nodeName") and RUN_TIME not in _annotations(tree):
            return tree  # it was there before, and nothing is known of its end
        if _is_restarted(spec) and RUN_TIME not in _annotations(tree):
            return tree
        return _annotated(tree, self._life(tree, origin, kind, name))

    def _life(self, tree: Tree, origin: str, kind: str, name: str = "") -> Life:
        """How long the pod of a tree runs."""
        pod = from_dict(with_namespace(tree))
        assert isinstance(pod, Pod)
        key = f"{pod.namespace}/{name}" if name else pod.key
        try:
            life = life_of(pod, tree, self._configuration(pod.namespace))
        except (ValueError, msgspec.ValidationError) as error:
            raise ValueError(f"{origin}: {kind} {key}: {error}") from None
        if _is_restarted(tree.get("spec") or {}) and RUN_TIME in _annotations(tree):
            message = f"annotation {RUN_TIME}: containers are restarted, so pods do not end"
            self._warn(origin, kind, key, message, "set restartPolicy: Never")
        elif life.missing:
            message = f"{life.missing}: what depends on it is not known"
            self._warn(origin, kind, key, message, f"add it to {origin}, or {USE_CLUSTER}")
        elif life.restarts and kind in ("Job", "CronJob"):
            message = "containers fail and are restarted for ever; backoffLimit has no effect at depth core"
            self._warn(origin, kind, key, message)
        return life

    def _configuration(self, namespace: str) -> Configuration:
        """The ConfigMaps and Secrets of these manifests. Raises ValidationError."""
        if namespace in self._configurations:
            return self._configurations[namespace]
        config_maps: dict[str, Data] = {}
        secrets: dict[str, Data] = {}
        for tree, _ in self._trees:
            metadata = tree.get("metadata") or {}
            if (metadata.get("namespace") or "default") != namespace:
                continue
            name = metadata.get("name", "")
            if tree["kind"] == "ConfigMap":
                config_maps[name] = msgspec.convert(strip_nulls(tree), ConfigMap).values
            elif tree["kind"] == "Secret":
                plain = tree.get("stringData") or {}
                secrets[name] = {**msgspec.convert(strip_nulls(tree), Secret).values, **plain}
        self._configurations[namespace] = Configuration(config_maps, secrets)
        return self._configurations[namespace]

    # ---- Jobs

    def _job(self, job: Job, tree: Tree, origin: str, owner: KubeObject | None = None) -> CoreJob:
        """A Job, or the one that `owner` creates again and again."""
        shown = owner or job
        if min(job.spec.parallelism, job.spec.completions or MOST_PODS + 1) > MOST_PODS:
            raise ValueError(f"{origin}: {shown.kind} {shown.key}: needs more than {MOST_PODS:,} pods")
        for field in JOB_FIELDS:
            if (tree.get("spec") or {}).get(field) is not None:
                self._warn(origin, shown.kind, shown.key, f"{field} is ignored at depth core")
        moulds = JobMoulds(job)
        body = moulds.body_of(0, None) if job.indexed else moulds.body()
        body["metadata"] |= {"name": job.name, "namespace": job.namespace}
        life = self._life(body, origin, shown.kind, shown.name)
        if job.indexed:
            last = moulds.body_of(max((job.spec.completions or 0) - 1, 0), None)
            last["metadata"] |= {"name": job.name, "namespace": job.namespace}
            if self._life(last, origin, shown.kind, shown.name) != life:
                message = "run times differ by index; depth core takes that of index 0"
                self._warn(origin, shown.kind, shown.key, message)
        classes = [source for source in self._trees if source[0]["kind"] == "PriorityClass"]
        manifests = load_trees([*classes, (body, origin)])
        _raise(manifests.problems)
        (pod,) = (obj for obj in manifests.objects if isinstance(obj, Pod))
        template = template_of(pod)
        template.owner = f"{shown.kind}/{shown.name}"
        return CoreJob(
            kind="Job",
            metadata=job.metadata,
            job=job,
            template=template,
            life=life,
            labelled=owner is None or self._mentions_job_labels,
        )

    def _cron_job(self, tree: Tree, origin: str) -> CoreCronJob:
        stripped = strip_nulls(with_namespace(tree))
        try:
            cron_job = msgspec.convert(stripped, CronJob)
        except msgspec.ValidationError as error:
            raise ValueError(f"{origin}: {malformed('CronJob', stripped, str(error))}") from None
        place = f"{origin}: CronJob {cron_job.key}"
        cron_job.metadata.uid = f"CronJob/{cron_job.key}"
        cron_job.metadata.creation_timestamp = format_time(START)
        try:
            find_due(cron_job, START)
        except UnclearScheduleError as error:
            raise ValueError(f"{place}: spec.schedule: {error.args[1]}") from None
        metadata = {"name": cron_job.name, "namespace": cron_job.namespace}
        spec = cron_job.spec.job_template.get("spec") or {}
        body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata, "spec": spec}
        job = _workload(body, f"{place}: spec.jobTemplate")
        assert isinstance(job, Job)
        return CoreCronJob(
            kind="CronJob",
            metadata=cron_job.metadata,
            cron_job=cron_job,
            job=self._job(job, body, origin, cron_job),
        )


def _workload(tree: Tree, origin: str) -> KubeObject:
    try:
        return workload_of(tree)
    except ObjectError as error:
        raise ValueError(f"{origin}: {error}") from None


def _is_a(tree: Tree, resource: ApiResource[Any]) -> bool:
    return (tree["kind"], tree.get("apiVersion")) == (kind_of(resource), resource.api_version)


def _is_restarted(spec: Tree) -> bool:
    """Whether containers of a pod are always restarted, and the pod never ends."""
    return spec.get("restartPolicy") in (None, "Always") and spec.get("activeDeadlineSeconds") is None


def _annotations(tree: Tree) -> Tree:
    annotations: Tree | None = (tree.get("metadata") or {}).get("annotations")
    return annotations or {}


def _annotated(tree: Tree, life: Life) -> Tree:
    annotations = {name: value for name, value in _annotations(tree).items() if name != RUN_TIME}
    if life.run_time < float("inf"):
        annotations[RUN_TIME] = f"{life.run_time:.9f}s"
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}}


def _raise(problems: Iterable[object]) -> None:
    text = "\n".join(map(str, problems))
    if text:
        raise ValueError(text)
