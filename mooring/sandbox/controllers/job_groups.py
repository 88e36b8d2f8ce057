"""Workload and PodGroup of a Job whose pods start together: the feature WorkloadWithJob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.api.groups import PodGroup, Workload
from mooring.api.jobs import Job
from mooring.api.kinds import JOBS, POD_GROUPS, WORKLOADS
from mooring.api.objects import Pod
from mooring.client.controller import Controller
from mooring.sandbox.controllers.owning import controller_reference
from mooring.sandbox.controllers.templates import fnv32a, safe_encode

GROUP_VERSION = "scheduling.k8s.io/v1alpha2"
LONGEST_NAME = 253


class JobGroups:
    """Makes the Workload and the PodGroup of each new Job that is a gang, and finds them again."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._jobs = controller.cache.follow(JOBS)
        self._workloads = controller.cache.follow(WORKLOADS)
        self._groups = controller.cache.follow(POD_GROUPS)
        self._workloads.subscribe(self._workload_changed)
        self._groups.subscribe(self._group_changed)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self._enqueue_owner(new or old)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        self._enqueue_owner(new or old)

    def _enqueue_owner(self, obj: Workload | PodGroup | None) -> None:
        owner = None if obj is None else obj.metadata.controller()
        if obj is not None and owner is not None and owner.kind == "Job":
            self._controller.enqueue(f"{obj.namespace}/{owner.name}")

    async def group_for(self, job: Job, pods: Sequence[Pod]) -> PodGroup | None:
        """The PodGroup for the Job's pods; None where they are scheduled one by one."""
        if not is_gang(job):
            return None
        workload = await self._workload(job, pods)
        return None if workload is None else await self._group(job, workload)

    async def _workload(self, job: Job, pods: Sequence[Pod]) -> Workload | None:
        mine = [each for each in self._workloads.in_namespace(job.namespace) if _is_for(each, job)]
        if not mine:
            return await self._create_workload(job) if _is_new(job, pods) else None
        only = mine[0]
        usable = len(mine) == 1 and _is_controlled(only, job) and len(only.spec.pod_group_templates) == 1
        return only if usable else None

    async def _create_workload(self, job: Job) -> Workload:
        policy = {"gang": {"minCount": job.spec.parallelism}}
        body = {
            "apiVersion": GROUP_VERSION,
            "kind": "Workload",
            "metadata": {
                "name": workload_name(job),
                "namespace": job.namespace,
                "ownerReferences": [controller_reference(JOBS, job)],
            },
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job.name},
                "podGroupTemplates": [{"name": f"{job.name}-pgt-0", "schedulingPolicy": policy}],
            },
        }
        created = await self._controller.create(self._workloads, body, job.namespace)
        note = f"Created Workload {created.name} for Job {job.name}"
        self._controller.event(self._jobs, job, "Normal", "WorkloadCreated", note)
        return created

    async def _group(self, job: Job, workload: Workload) -> PodGroup | None:
        mine = [each for each in self._groups.in_namespace(job.namespace) if _is_of(each, workload)]
        if not mine:
            return await self._create_group(job, workload)
        return mine[0] if len(mine) == 1 and _is_controlled(mine[0], job) else None

    async def _create_group(self, job: Job, workload: Workload) -> PodGroup:
        template = workload.spec.pod_group_templates[0]
        gang = template.scheduling_policy.gang
        policy: dict[str, Any] = {"basic": {}} if gang is None else {"gang": {"minCount": gang.min_count}}
        reference = {"workloadName": workload.name, "podGroupTemplateName": template.name}
        body = {
            "apiVersion": GROUP_VERSION,
            "kind": "PodGroup",
            "metadata": {
                "name": pod_group_name(workload.name, template.name),
                "namespace": job.namespace,
                "ownerReferences": [controller_reference(JOBS, job), _reference(workload)],
            },
            "spec": {"podGroupTemplateRef": {"workload": reference}, "schedulingPolicy": policy},
        }
        return await self._controller.create(self._groups, body, job.namespace)


def join(body: dict[str, Any], group: PodGroup) -> None:
    """Make a new pod a member of the group."""
    body["spec"] = {**body["spec"], "schedulingGroup": {"podGroupName": group.name}}


def is_gang(job: Job) -> bool:
    """Whether all pods of a Job run at once, one for each index."""
    spec = job.spec
    in_template = bool((spec.template.get("spec") or {}).get("schedulingGroup"))
    return job.indexed and spec.parallelism > 1 and spec.completions == spec.parallelism and not in_template


def _is_new(job: Job, pods: Sequence[Pod]) -> bool:
    """Whether a Job has never started: Jobs from before the feature was enabled stay as they are."""
    status = job.status
    started = pods or status.start_time is not None or status.succeeded or status.failed
    return not started and all(each.type != "Suspended" for each in status.conditions)


def _is_for(workload: Workload, job: Job) -> bool:
    reference = workload.spec.controller_ref
    named = (reference.api_group, reference.kind, reference.name) if reference is not None else None
    return named == ("batch", "Job", job.name)


def _is_of(group: PodGroup, workload: Workload) -> bool:
    reference = group.spec.pod_group_template_ref
    named = None if reference is None or reference.workload is None else reference.workload.workload_name
    return named == workload.name


def _is_controlled(obj: Workload | PodGroup, job: Job) -> bool:
    owner = obj.metadata.controller()
    return owner is not None and owner.uid == job.uid


def _reference(workload: Workload) -> dict[str, str]:
    return {"apiVersion": GROUP_VERSION, "kind": "Workload", "name": workload.name, "uid": workload.uid}


# ---- names


def workload_name(job: Job) -> str:
    """The Job's name with a hash of its UID, as kube-controller-manager computes it."""
    digest = safe_encode(str(fnv32a(f"(types.UID){job.uid}".encode())))
    return f"{job.name[: LONGEST_NAME - len(digest) - 1]}-{digest}"


def pod_group_name(workload: str, template: str) -> str:
    """Both names with a hash of them; where they are too long, each is cut to its share."""
    digest = safe_encode(str(fnv32a(f"{workload}{template}".encode())))
    room = LONGEST_NAME - len(digest) - 2
    half = room // 2
    if len(workload) + len(template) > room:
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{digest}"
